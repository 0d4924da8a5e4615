"""benchrun compare: the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchrun.cli.options import json_option, print_json, request
from benchrun.errors import UserError


@click.command("compare")
@click.argument("runs_or_log", nargs=-1, required=True)
@click.option("--recipe", help="With a log: the recipe it ran.")
@click.option("--gpu", help="With a log: its GPU.")
@click.option("--precision", help="With a log: its precision.")
@click.option("--num-gpus", type=click.IntRange(min=1), help="With a log: its number of GPUs.")
@click.option("--framework", help="With a log: what trained.")
@click.option(
    "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="With a log: what differed from the recipe."
)
@click.option("--warmup", type=click.IntRange(min=0), metavar="ROWS", help="Rows to drop; 5 or a tenth if not given.")
@json_option
def command(runs_or_log: tuple[str, ...], warmup: int | None, as_json: bool, recipe: str | None, **point: Any) -> int:
    """Judge RUNS (repeats of one point together), or one LOG with the options that say what it ran."""
    from benchrun import paths
    from benchrun.launch.rundir import open_run

    if len(runs_or_log) == 1 and Path(runs_or_log[0]).is_file():
        if recipe is None:
            raise UserError("a log needs the point it ran", hint="add --recipe, --gpu, --precision and --num-gpus")
        chosen = request(recipe, cluster=None, **point)
        return print_results([_judge_log(Path(runs_or_log[0]), chosen, warmup)], as_json)
    runs = [open_run(paths.runs_dir(), name) for name in runs_or_log]
    return print_verdicts(runs, as_json, warmup)


def print_verdicts(runs: list[Any], as_json: bool = False, warmup: int | None = None) -> int:
    """Judge runs, print what came out, and give the exit code."""
    from benchrun import flow

    return print_results([flow.verdict_of(group, warmup) for group in flow.repeats(runs)], as_json)


def print_results(results: list[Any], as_json: bool) -> int:
    """Print verdicts with their metrics. One verdict is one JSON object, several are an array."""
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict, _ in results]
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        from rich.console import Console

        from benchrun.report.terminal import verdict_view

        console = Console()
        for verdict, metrics in results:
            console.print(verdict_view(verdict, metrics), soft_wrap=True)
    codes = {verdict.exit_code for verdict, _ in results}
    return next((code for code in (4, 1) if code in codes), 0)


def _judge_log(log: Path, point: Any, warmup: int | None) -> tuple[Any, Any]:
    """What the log itself says of its conditions wins over the recipe: so a mismatch is seen, not assumed away."""
    from benchrun import flow
    from benchrun.compare import conditions, judge, load_references
    from benchrun.parse import parse_log
    from benchrun.recipe.resolve import resolve

    spec = resolve(point)
    parsed = parse_log(log)
    metrics = flow.metrics_of_log(parsed, flow.as_logged(spec, parsed), warmup)
    ours = conditions(flow.as_logged(spec, parsed))
    return judge(ours, [metrics], load_references()), metrics
