"""benchrun status: how runs are going, and how they ended."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from benchrun import app, paths
from benchrun.cli.options import json_option, newest, opened, print_json, say
from benchrun.errors import UserError, exit_code
from benchrun.vocabulary import Exit, worst

if TYPE_CHECKING:
    from benchrun.app import RunStatus


@click.command("status")
@click.argument("runs", nargs=-1)
@click.option(
    "--last", type=click.IntRange(min=1), default=20, show_default=True, help="Without RUNS: the newest so many."
)
@json_option
def command(runs: tuple[str, ...], last: int, as_json: bool) -> int:
    """How RUNS are going (the newest ones if none is named): state, steps, and how each ended."""
    found, code = opened(runs) if runs else (newest(last), Exit.OK)
    readable = []
    for run in found:
        try:
            run.spec  # noqa: B018
            readable.append(run)
        except UserError as error:
            say(f"left out: {error}")
            code = worst((code, error.exit_code))
    rows = []
    for run, status in app.statuses(readable):
        if isinstance(status, Exception):
            say(f"left out: {run.run_id}: {status}")
            code = worst((code, exit_code(status)))
        else:
            rows.append(status)
    if as_json:
        print_json([asdict(row) for row in rows])
        return code
    if not rows:
        say(f"no runs in {paths.runs_dir().absolute()}; BENCHRUN_RESULTS names another folder")
    for row in rows:
        click.echo("".join(char if char.isprintable() else "?" for char in _line(row)))  # a log may hold control codes
    return code


def _line(row: RunStatus) -> str:
    steps = f"step {row.last_step} of {row.planned_steps}" if row.last_step else ""
    note = "; ".join(dict.fromkeys(filter(None, [*row.evidence, row.note])))
    return f"{row.run_id}  {row.state:<12} {steps:<16} {note}".rstrip()
