"""benchrun launch: run a point or a suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from benchrun import app, paths
from benchrun.cli.options import point_options, say
from benchrun.spec.artifacts import JOB
from benchrun.vocabulary import Exit

if TYPE_CHECKING:
    from benchrun.app import RunDir


@click.command("launch")
@point_options
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each point.")
@click.option("--wait", is_flag=True, help="Follow the runs, then judge them. Ctrl-C leaves them running.")
@click.option("--dry-run", is_flag=True, help="Check everything and print the scripts; launch nothing.")
def command(repeats: int, wait: bool, dry_run: bool, **point: Any) -> int:
    """Run RECIPE (a recipe or a suite) and print the run ids."""
    specs = app.resolve(app.Request(**point))
    for spec in specs:
        for warning in app.warnings(spec):
            say(f"warning: {warning}")
    if dry_run:
        for spec in specs:
            click.echo(app.render(spec)[JOB], nl=False)
        return Exit.OK
    runs = []
    for spec in (spec for spec in specs for _ in range(repeats)):
        runs.append(app.start(spec))
        click.echo(runs[-1].run_id)
    if wait:
        return _wait(runs)
    say(f"follow them with: benchrun status; files in {paths.runs_dir()}")
    return Exit.OK


def _wait(runs: Sequence[RunDir]) -> Exit:
    from benchrun.cli.compare import print_verdicts
    from benchrun.cli.progress import StepProgress

    for index, run in enumerate(runs):
        try:
            with StepProgress(run.spec) as progress:
                app.wait(run, progress.update)
        except KeyboardInterrupt:
            left = " ".join(each.run_id for each in runs[index:])
            still = "The job runs on" if run is runs[-1] else "The jobs run on"
            say(f"\n{still}. Come back with: benchrun status; stop with: benchrun cancel {left}")
            return Exit.INTERRUPTED
    return print_verdicts(runs)
