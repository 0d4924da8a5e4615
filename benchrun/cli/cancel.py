"""benchrun cancel: stop runs."""

from __future__ import annotations

import click

from benchrun import app
from benchrun.cli.options import opened, say
from benchrun.errors import BenchrunError, exit_code
from benchrun.vocabulary import worst


@click.command("cancel")
@click.argument("runs", nargs=-1, required=True)
def command(runs: tuple[str, ...]) -> int:
    """Stop RUNS, from any shell. A run that has ended is left as it is."""
    found, code = opened(runs)
    for run in found:
        try:
            outcome = "asked to stop" if app.cancel(run) else "no job of it is left"
        except (BenchrunError, OSError) as error:  # the other runs are stopped all the same
            outcome = f"error: {error}"
            code = worst((code, exit_code(error)))
        say(f"{run.run_id}: {outcome}")
    return code
