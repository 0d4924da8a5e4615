"""The verb on studies."""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api
from benchrun.cli.complete import study_names
from benchrun.cli.options import (
    FILE,
    PROFILERS,
    choice_options,
    each,
    interrupted,
    json_option,
    json_text,
    print_json,
    retries_option,
    run_id,
    say,
    write_text,
)
from benchrun.errors import UserError
from benchrun.files import check_new
from benchrun.vocabulary import MOST_REPEATS, Exit

if TYPE_CHECKING:
    from benchrun.api import Request, ResolvedStudy, StudyResult


ENDINGS = {".html": "html", ".csv": "csv", ".md": "markdown"}
"""Format that the ending of a file names."""
CONCURRENCY = "Runs at a time; without Slurm those of one results folder take turns.  [default: 4; with --tune: 1]"


@click.command("study")
@click.argument("recipe", metavar="FILE", shell_complete=study_names)
@choice_options
@click.option(
    "--profile", type=PROFILERS, help="Profile a few steps after the measured ones, in every run."
)
@click.option(
    "--repeats",
    type=click.IntRange(1, MOST_REPEATS),
    help="Runs of each point; by default as the file states.",
)
@click.option("--concurrency", type=click.IntRange(min=1), help=CONCURRENCY)
@retries_option
@click.option(
    "--price-per-gpu-hour",
    type=click.FloatRange(min=0, max=1e6, min_open=True),
    help="Price of a GPU-hour in any currency, for the cost.",
)
@click.option(
    "--reuse",
    is_flag=True,
    help="Take completed runs of the same specification in place of new ones.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the points, their GPU-hours and cost; launch nothing."
)
@click.option("--report", is_flag=True, help="Print what is there already; launch nothing.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["plain", "markdown", "csv", "html"]),
    default="plain",
    show_default=True,
    help="html: one file with plots of the points and of every run.",
)
@click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    help="Write into FILE; its ending may be the format (.html .csv .md).",
)
@click.option(
    "--plot",
    type=FILE,
    metavar="FILE",
    help="Draw speed and memory of the points.",
)
@click.option(
    "--tune", is_flag=True, help="FILE is a recipe: search the fastest layout of its point."
)
@click.option(
    "--vary",
    multiple=True,
    metavar="SIZE=N,N",
    help="With --tune: values to try for tp, pp, vp, cp, ep, mbs.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=7),
    default=12,
    show_default=True,
    help="Steps of each job of --tune.",
)
@json_option
def study(
    profile: str | None,
    repeats: int | None,
    concurrency: int | None,
    retries: int,
    reuse: bool,
    price_per_gpu_hour: float | None,
    dry_run: bool,
    report: bool,
    form: str,
    output: Path | None,
    plot: Path | None,
    as_json: bool,
    tune: bool,
    vary: tuple[str, ...],
    steps: int,
    **point: Any,
) -> int:
    """Run every point of a study FILE, or of a shipped study or suite of that name, and
    compare the points.

    After an interruption the same command goes on: no run is launched twice. Points
    that break a rule are listed with the reason. Options that choose a point apply to
    all points, unless they are a factor. Exit code 4: some run gave no numbers.

    With --tune RECIPE, every legal layout that fits into memory is ranked by its
    prediction, and the best ones are tried by short jobs until no other is likely to be
    faster.
    """
    _check(profile, price_per_gpu_hour, vary, tune=tune)
    if output is not None:
        check_new(output)
        form = ENDINGS.get(output.suffix, form)
    request = api.Request(**point)
    if tune:
        return _tune(
            request, vary, steps, concurrency, dry_run or report, price_per_gpu_hour, as_json
        )
    planned = api.plan_study(api.profiled(request, profile) if profile else request, repeats)
    if not (dry_run or report):
        try:
            api.run_study(planned, concurrency or 4, retries, reuse, say)
        except KeyboardInterrupt:
            return interrupted("study")
    result = api.study_result(planned, price_per_gpu_hour, retries)
    _print(planned, result, "json" if as_json else form, output, plot)
    if (
        report
        and not any(point.runs for point in result.points)
        and (others := api.runs_of_other_points(planned))
    ):
        say(
            f"{others} runs of this study have other options: give --report the --profile and --set of their launch"
        )
    if not report:
        verb = f"benchrun study {point['recipe']}"
        say(f"next: {verb}" if dry_run else f"next: {verb} --report --output study.html")
    if dry_run or result.complete:
        return Exit.OK
    return Exit.INCONCLUSIVE


def _check(profile: str | None, price: float | None, vary: tuple[str, ...], *, tune: bool) -> None:
    """UserError for options that do not go together, and for what is no price."""
    if vary and not tune:
        raise UserError(
            "--vary is an option of --tune", hint="a study FILE lists its values under factors"
        )
    if tune and profile:
        raise UserError(
            "--tune profiles nothing", hint="benchrun profile RECIPE with the layout that it finds"
        )
    if price is not None and not math.isfinite(price):
        raise UserError(f"--price-per-gpu-hour {price} is no price")


def _print(
    planned: "ResolvedStudy",
    result: "StudyResult",
    form: str,
    output: Path | None,
    plot: Path | None,
) -> None:
    """Print the points in the format ``form``, or write them into ``output``; damaged
    files and runs without numbers go to stderr; draw ``plot``.
    """
    if plot:
        from .plot import plot_study

        plot_study(result, plot)
    if form == "json":
        write_text(json_text(result.document()), output)
    else:
        from .view import missing, study_page

        text = _html(planned, result) if form == "html" else study_page(result, form)
        write_text(text, output)
        for line in missing(result):
            say(line)
    for line in result.notes:
        say(line)


def _html(planned: "ResolvedStudy", result: "StudyResult") -> str:
    """One HTML file: the study and its runs, with plots."""
    from .html import study_html

    data, _ = each(api.study_runs(planned), api.run_data, run_id)
    return study_html(result, api.report_on(data))


def _tune(
    request: "Request",
    vary: tuple[str, ...],
    steps: int,
    concurrency: int | None,
    look: bool,
    price: float | None,
    as_json: bool,
) -> int:
    """Search the fastest layout of a point, or only print what was found so far."""
    sizes = {}
    for name, values in map(_values, vary):
        if name in sizes:
            raise UserError(
                f"--vary {name} is given twice", hint=f"all its values in one: --vary {name}=1,2,4"
            )
        sizes[name] = values
    tuning = api.plan_tuning(request, sizes, steps, _shown)
    if tuning.stands_in:
        say(
            "The speed of this machine is not known: only the order of the predictions means something"
        )
    if not look:
        try:
            api.tune(tuning, concurrency or 1, say)
        except KeyboardInterrupt:
            return interrupted("search")
    result = api.tuning_result(tuning)
    if as_json:
        print_json(result.document())
    else:
        from .tuned_view import tuned_page

        click.echo(tuned_page(result, price), nl=False)
        verb = f"benchrun launch {request.recipe} with these --set measures it in full"
        say(f"next: {'the same without --dry-run or --report tries them' if look else verb}")
    if look or result.best:
        return Exit.OK
    return Exit.INCONCLUSIVE


def _shown(tried: Sequence[Any]) -> Iterator[Any]:
    """``tried`` with a bar on stderr, which is one line if that is no terminal."""
    with click.progressbar(tried, label="ranking layouts", file=sys.stderr) as bar:
        yield from bar


def _values(text: str) -> tuple[str, list[int]]:
    """``tp=1,2`` as a name and its values."""
    name, _, values = text.partition("=")
    try:
        numbers = list(map(int, values.split(",")))
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise UserError(
            f"--vary {text}: expected a size and its values", hint="for example --vary tp=1,2,4"
        )
    return name, numbers
