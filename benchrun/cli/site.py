"""Verbs on a site: doctor, site init, images."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import click

from benchrun import api
from benchrun.errors import UserError
from benchrun.vocabulary import Exit, Runtime, worst

from .complete import cluster_names, gpu_names, recipe_names
from .options import FILE, json_option, print_json, say

MARKS = {"ok": "ok", "fault": "FAULT", "warning": "warning", "not_checked": "not checked"}
RUNTIMES = get_args(Runtime)


@click.command("doctor")
@click.option(
    "--cluster", metavar="NAME|FILE", shell_complete=cluster_names, help="Check this site file."
)
@click.option(
    "--wait",
    "wait_s",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Seconds to wait for a node.",
)
@click.option("--no-node", is_flag=True, help="Ask no compute node.")
@json_option
def doctor(cluster: str | None, wait_s: int, no_node: bool, as_json: bool) -> int:
    """Check what this machine can do; with --cluster, everything that would fail on
    that cluster before a job waits.

    --cluster asks Slurm, then one node: partition, account, QOS, reservation, nodes,
    GPUs, time limit; container runtime, images, mounts, the shared runs folder, the
    clock. Exit code 2: the file has a fault; 3: the machine has.
    """
    from benchrun.show.table import aligned

    if cluster is not None:
        return _check(cluster, wait_s, not no_node, as_json)
    findings = api.examine()
    if as_json:
        print_json(list(map(asdict, findings)))
        return Exit.OK
    rows = []
    for f in findings:
        rows.append((f.what, f"{f.found or 'no'}{f'  ({f.hint})' if f.hint else ''}"))
    click.echo("\n".join(map("  ".join, aligned(rows))))
    return Exit.OK


def _check(cluster: str, wait_s: int, on_node: bool, as_json: bool) -> int:
    """Print each check of a site file as soon as it is done; returns the exit code."""
    checks = []
    for check in api.check_site(cluster, wait_s=wait_s, on_node=on_node):
        checks.append(check)
        if not as_json:
            hint = ""
            if check.hint and check.status != "ok":
                hint = f"\n{'':13}{check.hint}"
            click.echo(f"{MARKS[check.status]:<11}  {check.what}: {check.found}{hint}")
    if as_json:
        print_json(list(map(asdict, checks)))
    return worst(check.exit_code for check in checks if check.status == "fault")


@click.group("site")
def site() -> None:
    """A site file: where jobs run."""


@site.command("init", short_help="Write a site file from what Slurm says.")
@click.option(
    "--partition", help="Partition that the jobs use; by default the one with the most GPUs."
)
@click.option(
    "--gpu",
    shell_complete=gpu_names,
    help="Name of the GPU, e.g. H100, if Slurm and the nodes do not state it.",
)
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    help="Container runtime of the nodes; by default pyxis where srun has it, else it is asked for.",
)
@click.option("--output", type=FILE, default=Path("mysite.yaml"), show_default=True)
def init(partition: str | None, gpu: str | None, runtime: str | None, output: Path) -> None:
    """Write a site file from what Slurm says, with every key and its explanation. An
    existing file stays as it is.
    """
    named = api.write_site(output, partition, gpu, runtime, _asked)
    say(f"wrote {output}; check it with: benchrun doctor --cluster {output}")
    if not named:
        say(
            f"neither Slurm nor a node names the GPUs: {output} has CPU; write their name, or use --gpu"
        )


def _asked(runtimes: Sequence[str]) -> str:
    """The container runtime of the nodes, as a person says; none where nobody is there."""
    here = f"this machine has {', '.join(runtimes)}"
    if sys.stdin.isatty():
        question = f"{here}; which container runtime do the nodes have"
        answer: str = click.prompt(question, type=click.Choice(RUNTIMES), default="none", err=True)
        return answer
    say(f"{here}, the nodes may not: container.runtime is none; or use --runtime")
    return "none"


@click.command("images")
@click.argument("recipes", nargs=-1, shell_complete=recipe_names)
@click.option(
    "--cluster",
    metavar="NAME|FILE",
    shell_complete=cluster_names,
    help="The site, for the map of its files.",
)
@click.option("--gpu", help="Only for points on this GPU.")
@click.option("--framework", help="Only for this framework.")
@json_option
def images(
    recipes: tuple[str, ...],
    cluster: str | None,
    gpu: str | None,
    framework: str | None,
    as_json: bool,
) -> int:
    """Container images that RECIPES or suites need (by default all recipes), and where
    the site has each.

    Without a network on the nodes: pull each on a machine that has one, and write the
    map that this prints into the site file.
    """
    rows = api.list_images(recipes, cluster, gpu, framework)
    if as_json:
        print_json(rows)
        return Exit.OK
    if not rows:
        raise UserError("no run of these has an image")
    from benchrun.show.listing import inventory_table
    from benchrun.show.table import LINE, fitted

    click.echo(fitted(inventory_table(rows, ("pull", "file")), LINE), nl=False)
    if missing := [row for row in rows if row["site"] is None]:
        click.echo("\n# pull:\n" + "\n".join(row["pull"] for row in missing))
        click.echo("\n# in the site file, with the folder of your files:\ncontainer:\n  images:")
        click.echo("\n".join(f"    {row['image']}: /PATH/{row['file']}" for row in missing))
    return Exit.OK
