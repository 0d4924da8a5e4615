"""benchrun report: runs as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchrun.cli.options import json_option, print_json, runs_named, say, worst
from benchrun.errors import UserError


@click.command("report")
@click.argument("runs", nargs=-1)
@click.option("--format", "form", type=click.Choice(["markdown", "csv"]), default="markdown", show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep what the RUNS measured in DIR.")
@json_option
def command(runs: tuple[str, ...], form: str, keep: Path | None, as_json: bool) -> int:
    """One RUN as a page, or several (all, if none is named) as a table with a row a point.

    With --keep each run gets a directory in DIR (results/measured): spec, environment, metrics, verdict and the
    compressed logs, without this machine's names and paths. Nothing is overwritten.

    The exit code is that of the worst verdict, as with compare; a run that was not judged does not count.
    """
    import json

    from benchrun import flow
    from benchrun.compare import load_references
    from benchrun.report import markdown
    from benchrun.report.fsdp import fsdp_over_3d
    from benchrun.report.runs import frame
    from benchrun.report.runs import markdown as table_markdown

    chosen = runs_named(runs)
    if keep:
        if not runs:
            raise UserError("--keep wants the RUNS named: not everything is worth keeping")
        for run in chosen:
            say(f"kept {flow.keep(run, keep).path}")
    results = [flow.result_of(run) for run in chosen] if runs else _readable(chosen)
    if as_json:
        print_json(json.loads(frame(results).to_json(orient="records")))
    elif form == "csv":
        click.echo(frame(results).to_csv(index=False), nl=False)
    elif runs and len(chosen) == 1:
        one = results[0]
        click.echo(markdown.run_page(one), nl=False)
    else:
        click.echo(table_markdown(frame(results)), nl=False)
        for line in fsdp_over_3d(results, load_references()):
            click.echo(f"\n{line}")
    return worst(result.verdict.exit_code for result in results if result.verdict)


def _readable(chosen: list[Any]) -> list[Any]:
    """What is known of each run; one whose files cannot be read is left out with a word."""
    from benchrun import flow

    results = []
    for run in chosen:
        try:
            results.append(flow.result_of(run))
        except UserError as error:
            say(f"left out: {error}")
    return results
