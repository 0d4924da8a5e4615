"""Verbs on points: render, launch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import app, paths
from benchrun.cli.options import point_options, say
from benchrun.vocabulary import Exit

if TYPE_CHECKING:
    from benchrun.app import RunDir, RunSpec


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


@click.command("launch")
@point_options
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each point.")
@click.option("--wait", is_flag=True, help="Follow the runs, then judge them. Ctrl-C leaves them running.")
@click.option("--dry-run", is_flag=True, help="Check everything and print the scripts; launch nothing.")
def launch(repeats: int, wait: bool, dry_run: bool, **point: Any) -> int:
    """Run RECIPE (a recipe or a suite) and print the run ids."""
    specs = app.resolve(app.Request(**point))
    for spec in specs:
        for warning in app.warnings(spec):
            say(f"warning: {warning}")
    if dry_run:
        for spec in specs:
            _print_script(spec)
        return Exit.OK
    runs = []
    for spec in (spec for spec in specs for _ in range(repeats)):
        runs.append(app.start(spec))
        click.echo(runs[-1].run_id)
    if wait:
        return _wait(runs)
    say(f"follow them with: benchrun status; files in {paths.runs_dir()}")
    return Exit.OK


def _wait(runs: "Sequence[RunDir]") -> Exit:
    from benchrun.cli.logs import print_verdicts
    from benchrun.cli.runs import follow

    left = follow(runs)
    if left:
        still = "The jobs run on" if len(left) > 1 else "The job runs on"
        say(f"\n{still}. Come back with: benchrun status; stop with: benchrun cancel {' '.join(left)}")
        return Exit.INTERRUPTED
    return print_verdicts(runs)
