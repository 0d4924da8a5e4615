"""benchrun cancel: stop runs."""

from __future__ import annotations

import click

from benchrun.cli.options import say


@click.command("cancel")
@click.argument("runs", nargs=-1, required=True)
def command(runs: tuple[str, ...]) -> None:
    """Stop RUNS, from any shell. A run that has ended is left as it is."""
    from benchrun import paths
    from benchrun.launch.launcher import cancel
    from benchrun.launch.rundir import open_runs

    for run in open_runs(paths.runs_dir(), runs):
        say(f"{run.run_id}: {'asked to stop' if cancel(run) else 'no job of it is left'}")
