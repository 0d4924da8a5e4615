"""benchrun parse: a log in numbers."""

from __future__ import annotations

from pathlib import Path

import click

from benchrun.cli.options import json_option, print_json, say


@click.command("parse")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--warmup", type=click.IntRange(min=0), metavar="ROWS", help="Rows to drop; 5 or a tenth if not given.")
@click.option("--framework", help="Whose log it is; found out if not given.")
@json_option
def command(log: Path, warmup: int | None, framework: str | None, as_json: bool) -> int:
    """Step time, tokens/s/GPU and problems of a training LOG. What the log does not hold is null."""
    from benchrun.metrics.summary import summarise
    from benchrun.parse import parse_log

    summary = summarise(parse_log(log, framework=framework), warmup=warmup)
    if as_json:
        print_json(summary.model_dump(mode="json"))
    else:
        from rich.console import Console

        from benchrun.report.terminal import summary_view

        Console().print(summary_view(summary), soft_wrap=True)
    if not summary.num_steps:
        say(f"{log}: no step of any known framework ({_known()})")
        return 4
    return 0


def _known() -> str:
    from benchrun.parse import DIALECTS

    return ", ".join(sorted(DIALECTS))
