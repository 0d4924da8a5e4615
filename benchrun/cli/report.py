"""benchrun report: runs as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchrun import app
from benchrun.cli.options import json_option, newest, print_json, say
from benchrun.errors import UserError
from benchrun.vocabulary import worst

if TYPE_CHECKING:
    from benchrun.app import RunDir, RunResult


@click.command("report")
@click.argument("runs", nargs=-1)
@click.option("--format", "form", type=click.Choice(["markdown", "csv"]), default="markdown", show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep what the RUNS measured in DIR.")
@json_option
def command(runs: tuple[str, ...], form: str, keep: Path | None, as_json: bool) -> int:
    """One RUN as a page, or several (all, if none is named) as a table with a row per point.

    With --keep each run gets a directory in DIR (results/measured): spec, environment, metrics, verdict and the
    compressed logs, without this machine's names and paths. Nothing is overwritten.

    The exit code is that of the worst verdict, as with compare; a run that was not judged does not count.
    """
    from benchrun.report.runs import runs_page, table
    from benchrun.report.table import as_csv

    chosen = app.open_runs(runs) if runs else newest()
    if keep:
        if not runs:
            raise UserError("--keep wants the RUNS named: not everything is worth keeping")
        for run in chosen:
            say(f"kept {app.keep(run, keep).path}")
    results = [app.result_of(run) for run in chosen] if runs else _readable(chosen)
    if as_json:
        print_json(table(results).records())
    elif form == "csv":
        click.echo(as_csv(table(results)), nl=False)
    elif runs and len(chosen) == 1:
        from benchrun.report.markdown import run_page

        click.echo(run_page(results[0]), nl=False)
    else:
        click.echo(runs_page(results), nl=False)
    return worst(result.verdict.exit_code for result in results if result.verdict)


def _readable(chosen: Sequence[RunDir]) -> list[RunResult]:
    """The result of each run; one whose files cannot be read is named on stderr."""
    results = []
    for run in chosen:
        try:
            results.append(app.result_of(run))
        except UserError as error:
            say(f"left out: {error}")
    return results
