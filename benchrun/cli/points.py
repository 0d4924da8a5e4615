"""Verbs on points: list, show, render, launch; and doctor, which examines the machine."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from benchrun import app, paths
from benchrun.cli.options import all_of, json_option, point_options, print_json, say
from benchrun.vocabulary import Exit

if TYPE_CHECKING:
    from benchrun.app import RunDir, RunSpec

ONLY_IN_JSON = ("task", "image")
"""Keys of a row of ``list``."""


@click.command("list")
@click.argument("recipes", nargs=-1)
@click.option("--gpu", help="Only points for this GPU.")
@json_option
def list(recipes: tuple[str, ...], gpu: str | None, as_json: bool) -> None:
    """Every point of RECIPES, by default of all recipes: layout, batch, number of references (--json: image too)."""
    rows = app.list_points(recipes, gpu)
    if as_json:
        print_json(rows)
        return
    from benchrun.report.table import Table, plain

    names = [name for name in rows[0] if name not in ONLY_IN_JSON]
    click.echo(plain(Table(names, [[row[name] for name in names] for row in rows], missing="None")), nl=False)


@click.command("show")
@point_options
@json_option
def show(as_json: bool, **point: Any) -> None:
    """Everything about one point: model, layout and its arithmetic, FLOPs, memory per GPU, reference numbers."""
    document = app.describe(app.resolve_point(app.Request(**point)))
    if as_json:
        print_json(document)
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False, width=110, default_flow_style=False).rstrip())


@click.command("render")
@point_options
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Write all files into DIR.")
def render(output: Path | None, **point: Any) -> None:
    """The script that would be submitted, on stdout; with --output every file of the job."""
    spec = app.resolve_point(app.Request(**point))
    if output is None:
        _print_script(spec)
    else:
        say(f"wrote {', '.join(app.write_files(output, spec))} to {output}")


def _print_script(spec: "RunSpec") -> None:
    from benchrun.spec.artifacts import JOB  # pydantic, which a listing does without

    click.echo(app.render(spec)[JOB], nl=False)


launch_options = all_of(
    click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each point."),
    click.option("--wait", is_flag=True, help="Follow the runs, then judge them. Ctrl-C leaves them running."),
    click.option(
        "--retries",
        type=click.IntRange(min=1),
        metavar="N",
        help="Wait, and launch a run that a node's failure ended again, without that node, up to N times.",
    ),
    click.option("--exclude", metavar="FILE|LIST", help="Nodes to leave out: a list as for Slurm, or a file of names."),
    click.option("--dry-run", is_flag=True, help="Check everything and print the scripts; launch nothing."),
)
PROFILERS = click.Choice(("kineto", "nsys", "xplane"))


class Options(TypedDict):
    """The values of ``launch_options``."""

    repeats: int
    wait: bool
    retries: int | None
    exclude: str | None
    dry_run: bool


@click.command("launch")
@point_options
@click.option("--profile", type=PROFILERS, help="Profile a few steps after the measured ones.")
@launch_options
def launch(
    profile: str | None, repeats: int, wait: bool, retries: int | None, exclude: str | None, dry_run: bool, **point: Any
) -> int:
    """Run RECIPE (a recipe or a suite) and print the run ids."""
    request = app.Request(**point)
    specs = app.resolve_profiled(request, profile) if profile else app.resolve(request)
    return _launch(specs, Options(repeats=repeats, wait=wait, retries=retries, exclude=exclude, dry_run=dry_run))


@click.command("profile")
@point_options
@click.option("--tool", "--profile", type=PROFILERS, help="The profiler; by default the recipe's, else kineto.")
@launch_options
def profile(
    tool: str | None, repeats: int, wait: bool, retries: int | None, exclude: str | None, dry_run: bool, **point: Any
) -> int:
    """Run RECIPE with a few profiled steps after the measured ones: the same as launch --profile.

    Each profiled rank writes a trace into the run's folder `profile`. --set profile.steps=5 and --set
    'profile.ranks=[0,8]' choose how many steps and which ranks.
    """
    specs = app.resolve_profiled(app.Request(**point), tool)
    return _launch(specs, Options(repeats=repeats, wait=wait, retries=retries, exclude=exclude, dry_run=dry_run))


def _launch(resolved: "Sequence[RunSpec]", options: Options) -> int:
    """Launch each of ``resolved``; returns the exit code."""
    specs = [app.without_nodes(spec, options["exclude"]) for spec in resolved]
    for spec in specs:
        for warning in app.warnings(spec):
            say(f"warning: {warning}")
    if options["dry_run"]:
        for spec in specs:
            _print_script(spec)
        return Exit.OK
    runs = []
    for spec in (spec for spec in specs for _ in range(options["repeats"])):
        runs.append(app.start(spec))
        click.echo(runs[-1].run_id)
    if options["wait"] or options["retries"]:
        return _wait(runs, options["retries"] or 0)
    say(f"follow them with: benchrun status; files in {paths.runs_dir()}")
    return Exit.OK


def _wait(runs: "Sequence[RunDir]", retries: int) -> Exit:
    from benchrun.cli.logs import print_verdicts
    from benchrun.cli.progress import StepProgress

    waiting = [*runs]
    try:
        for index, first in enumerate(runs):
            for attempt, reason in app.attempts(first, retries):
                waiting[index] = attempt
                if reason:
                    say(f"{reason}; launched again as {attempt.run_id}")
                with StepProgress(attempt.spec) as progress:
                    app.wait(attempt, progress.show)
    except KeyboardInterrupt:
        left = [run.run_id for run in waiting[index:]]
        still = "The jobs run on" if len(left) > 1 else "The job runs on"
        say(f"\n{still}. Come back with: benchrun status; stop with: benchrun cancel {' '.join(left)}")
        return Exit.INTERRUPTED
    return print_verdicts(waiting)


@click.command("doctor")
@json_option
def doctor(as_json: bool) -> None:
    """What this machine can do: Slurm, accounting, container runtimes, GPUs, the worker's libraries, disk."""
    from benchrun.report.table import aligned

    findings = app.examine()
    if as_json:
        print_json([asdict(finding) for finding in findings])
        return
    rows = [(f.what, f"{f.found or 'no'}{f'  ({f.hint})' if f.hint else ''}") for f in findings]
    click.echo("\n".join("  ".join(row) for row in aligned(rows)))
