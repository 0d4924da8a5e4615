"""The verb on studies."""

from typing import Any

import click

from benchrun import app
from benchrun.cli.options import choice_options, json_option, print_json, say
from benchrun.vocabulary import Exit


@click.command("study")
@click.argument("recipe", metavar="FILE")
@choice_options
@click.option("--concurrency", type=click.IntRange(min=1), default=4, show_default=True, help="Runs at a time.")
@click.option(
    "--retries", type=click.IntRange(min=0), default=0, show_default=True, help="New launches of a failed run."
)
@click.option(
    "--price-per-gpu-hour", type=click.FloatRange(min=0, min_open=True), help="For the cost, in any currency."
)
@click.option("--reuse", is_flag=True, help="Take completed runs of the same specification in place of new ones.")
@click.option("--dry-run", is_flag=True, help="Print the points, their GPU-hours and cost; launch nothing.")
@click.option("--report", is_flag=True, help="Print what is there already; launch nothing.")
@click.option("--format", "form", type=click.Choice(["plain", "markdown", "csv"]), default="plain", show_default=True)
@json_option
def study(
    concurrency: int,
    retries: int,
    reuse: bool,
    price_per_gpu_hour: float | None,
    dry_run: bool,
    report: bool,
    form: str,
    as_json: bool,
    **point: Any,
) -> int:
    """Run every point of a study FILE, or of a shipped study or suite of that name, and compare the points.

    The same command goes on where an earlier one was interrupted or killed: no run is launched twice. Points that break
    a rule are listed with the reason. Options that choose a point apply to all points, unless they are a factor. Exit
    code 4: some run gave no numbers.
    """
    planned = app.plan_study(app.Request(**point))
    if not (dry_run or report):
        try:
            app.run_study(planned, concurrency, retries, reuse, say)
        except KeyboardInterrupt:
            say("\nThe jobs run on. The same command goes on with the study; benchrun status shows the jobs")
            return Exit.INTERRUPTED
    result = app.study_result(planned, price_per_gpu_hour, retries)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        from benchrun.report.study import missing, study_page

        click.echo(study_page(result, form), nl=False)
        for line in missing(result):
            say(line)
    return Exit.OK if dry_run or result.complete else Exit.INCONCLUSIVE
