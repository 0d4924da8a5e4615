"""Verbs on acceptance: plan, verify."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api, paths
from benchrun.cli.complete import cluster_names, plan_names
from benchrun.cli.options import FILE, interrupted, json_option, print_json, retries_option, say
from benchrun.vocabulary import Exit

if TYPE_CHECKING:
    from benchrun.api import Appraisal, ResolvedPlan


@click.command("plan")
@click.argument("file", shell_complete=plan_names)
@click.option(
    "--cluster",
    metavar="NAME|FILE",
    shell_complete=cluster_names,
    help="Cluster profile, in place of the one that the file names.",
)
@click.option(
    "--num-nodes",
    type=click.IntRange(min=1),
    help="Number of nodes, if the plan is for another: runs on more are left out, all of them are added.",
)
@click.option(
    "--name",
    help="Name of this acceptance: another name runs everything anew.  [default: the file's]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs at a time; more than one may disturb each other.",
)
@retries_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print runs, nodes, criteria, GPU-hours and cost; launch nothing.",
)
@click.option("--report", is_flag=True, help="Judge what is there already; launch nothing.")
@click.option(
    "--pack",
    "target",
    type=FILE,
    metavar="PATH",
    help="Write the evidence to PATH: an archive (.tar.gz) or a directory.  [default: packs/, beside the runs]",
)
@click.option(
    "--with-site", is_flag=True, help="Leave names, paths and addresses of the site in the pack."
)
@json_option
def plan(
    file: str,
    cluster: str | None,
    num_nodes: int | None,
    name: str | None,
    concurrency: int,
    retries: int,
    dry_run: bool,
    report: bool,
    target: Path | None,
    with_site: bool,
    as_json: bool,
) -> int:
    """Run an acceptance plan FILE, or a shipped one of that name, and judge every
    criterion.

    After an interruption the same command goes on: no run is launched twice. When all
    runs have ended, their evidence is written as a pack, which benchrun verify computes
    again on any machine.

    Exit codes: 0 every criterion is met; 1 one is not; 4 a run is missing, or a
    measurement gives no answer.
    """
    planned = api.plan_acceptance(file, cluster, name, num_nodes)
    if dry_run:
        return _announce(planned, as_json)
    if not report:
        say(_planned_page(planned))
        try:
            api.run_study(planned.check, 1, retries, tell=say)
            api.run_study(planned.study, concurrency, retries, tell=say)
        except KeyboardInterrupt:
            return interrupted("plan")
    appraisal = api.appraise(planned, api.runs_of(planned))
    if not report:
        api.store_appraisal(appraisal)
    written = None
    if appraisal.results and (target or not report):
        packed = api.write_pack(planned, target, packs=paths.packs_dir(), redacted=not with_site)
        say(f"evidence: {packed.path}, sha256 of its manifest {packed.digest}")
        written = {"path": str(packed.path), "digest": packed.digest}
    return _show(planned, appraisal, written, as_json)


def _announce(planned: "ResolvedPlan", as_json: bool) -> int:
    """Print what will be launched."""
    if as_json:
        study = api.study_result(planned.study).document()
        print_json(api.appraise(planned, {}).acceptance.document() | {"study": study, "pack": None})
    else:
        click.echo(_planned_page(planned), nl=False)
        say("next: the same without --dry-run")
    return Exit.OK


def _planned_page(planned: "ResolvedPlan") -> str:
    """Points, criteria, GPU-hours and cost."""
    from .view import planned_page

    return planned_page(api.appraise(planned, {}).acceptance, api.study_result(planned.study))


def _show(
    planned: "ResolvedPlan", appraisal: "Appraisal", written: dict[str, Any] | None, as_json: bool
) -> int:
    """Print the verdict on every criterion; returns the exit code."""
    acceptance = appraisal.acceptance
    if as_json:
        study = api.study_result(planned.study).document()
        print_json(acceptance.document() | {"study": study, "pack": written})
    else:
        from .view import acceptance_page

        click.echo(acceptance_page(acceptance), nl=False)
    if written:
        say(f"next: benchrun verify {written['path']}")
    elif not appraisal.results:
        say("next: the same without --report")
    return acceptance.exit_code


@click.command("verify")
@click.argument("pack", type=FILE)
@click.option(
    "--plan",
    "own_plan",
    metavar="FILE",
    shell_complete=plan_names,
    help="Refuse a pack of another plan.",
)
@json_option
def verify(pack: Path, own_plan: str | None, as_json: bool) -> int:
    """Compute an evidence PACK again, offline: hashes, logs, metrics, references,
    criteria.

    No number in the pack is trusted: what it states must be what its logs give. Exit
    codes: those of the verdict; 4 for a pack that is refused.
    """
    verification = api.verify_pack(pack, own_plan)
    if as_json:
        print_json(verification.document())
        return verification.exit_code
    from .view import acceptance_page, reason_lines

    for line in reason_lines("warning", verification.warnings):
        say(line)
    if verification.acceptance is None:
        click.echo(f"REFUSED: {pack}")
        for line in reason_lines("", verification.reasons):
            click.echo(line)
    else:
        click.echo(f"verified: {pack}, sha256 of its manifest {verification.digest}")
        click.echo(acceptance_page(verification.acceptance), nl=False)
    return verification.exit_code
