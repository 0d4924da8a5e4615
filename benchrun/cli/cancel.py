"""benchrun cancel: stop runs."""

from __future__ import annotations

import click

from benchrun.cli.options import each_named, say, worst


@click.command("cancel")
@click.argument("runs", nargs=-1, required=True)
def command(runs: tuple[str, ...]) -> int:
    """Stop RUNS, from any shell. A run that has ended is left as it is."""
    from benchrun.errors import BenchrunError, MachineError
    from benchrun.launch.launcher import cancel

    found, code = each_named(runs)
    for run in found:
        try:
            outcome = "asked to stop" if cancel(run) else "no job of it is left"
        except (BenchrunError, OSError) as error:  # one that cannot be stopped keeps no other alive
            outcome = f"error: {error}"
            code = worst((code, getattr(error, "exit_code", MachineError.exit_code)))
        say(f"{run.run_id}: {outcome}")
    return code
