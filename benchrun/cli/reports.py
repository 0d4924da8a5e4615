"""The verb report."""

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api, extensions
from benchrun.errors import NoNumberError, UserError, closest
from benchrun.files import check_new
from benchrun.vocabulary import Exit, worst

from .complete import recipe_names, runs_or_files
from .options import (
    FILE,
    baseline_option,
    each,
    json_option,
    json_text,
    opened,
    run_id,
    say,
    write_text,
)
from .runs import no_runs

if TYPE_CHECKING:
    from benchrun.api import ReportModel, RunDir, RunResult, Verdict

TEXTS = ("terminal", "markdown", "csv", "json", "junit", "prometheus")
"""Formats of the core: tables and documents, in which no run is drawn."""
FORMATS = (*TEXTS, "html")
MANY = 20
"""Runs whose reading takes seconds."""
ENDINGS = {
    ".html": "html",
    ".xml": "junit",
    ".prom": "prometheus",
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".txt": "terminal",
}
"""Format that the ending of a file names."""
SPLITS = ("node", "driver", "image", "version")
"""Values of --by that separate the histories of a point."""


class Form(click.Choice[str]):
    """Name of a format: benchrun's own, or that of a package."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        """The name. click calls this."""
        if value in extensions.installed("formats"):
            return value
        return super().convert(value, parameter, context)


@dataclass(frozen=True)
class Wanted:
    """Runs that a report is on, of those that are named."""

    recipes: tuple[str, ...]
    since: datetime | None
    until: datetime | None
    verdicts: tuple[str, ...]

    def fits(self, run: "RunDir") -> bool:
        """Whether the recipe and the time of the launch are wanted."""
        if self.recipes and run.spec.recipe not in self.recipes:
            return False
        if self.since is None and self.until is None:
            return True
        launched = api.launched_at(run)
        if launched is None or (self.since and launched < self.since):
            return False
        return self.until is None or launched < self.until

    def judged(self, result: "RunResult") -> bool:
        """Whether the verdict, or the ending of a run without one, is wanted."""
        return not self.verdicts or result.judgement.replace(" ", "_") in self.verdicts


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """A date or a time, in UTC; of --until the end of that day. click calls this."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value.removesuffix("Z"))
    except ValueError:
        raise click.BadParameter(
            f"'{value}' is no date: expected one like 2026-11-22 or 2026-11-22T18:30"
        ) from None
    if parameter.name == "until" and len(value) == len("2026-11-22"):
        time += timedelta(days=1)
    return time.replace(tzinfo=time.tzinfo or timezone.utc)


@click.command("report")
@click.argument("runs", nargs=-1, shell_complete=runs_or_files)
@click.option(
    "--format",
    "form",
    type=Form(FORMATS),
    help="terminal (the default on a terminal), markdown (elsewhere), csv, json, html (with plots), junit, prometheus.",
)
@click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    help="Write into FILE; its ending is the format (.html .xml .csv .json .md .txt .prom).",
)
@click.option(
    "--by",
    type=click.Choice(["point", "framework", *SPLITS]),
    default="point",
    show_default=True,
    help="What a row is; with --history, what separates the runs of a point.",
)
@click.option(
    "--history",
    is_flag=True,
    help="Step time of each point since its first run, with its change points.",
)
@click.option(
    "--scaling", is_flag=True, help="Rows are weak and strong curves over GPUs, beside predictions."
)
@click.option("--plot", type=FILE, metavar="FILE", help="Draw --scaling.")
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    shell_complete=recipe_names,
    help="Only runs of these recipes: a,b, or given again.",
)
@click.option(
    "--since", metavar="DATE", callback=_time, help="Only runs launched at this time or later, UTC."
)
@click.option(
    "--until", metavar="DATE", callback=_time, help="Only runs launched before the end of this day."
)
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    metavar="NAME",
    help="Only runs with this verdict, e.g. slow; may be repeated.",
)
@baseline_option
@click.option(
    "--keep",
    type=FILE,
    metavar="DIR",
    help="Keep what the RUNS measured in DIR.",
)
@json_option
def report(
    runs: tuple[str, ...],
    form: str | None,
    output: Path | None,
    by: str,
    history: bool,
    scaling: bool,
    plot: Path | None,
    baseline: str | None,
    keep: Path | None,
    as_json: bool,
    recipes: tuple[str, ...],
    since: Any,
    until: Any,
    verdicts: tuple[str, ...],
) -> int:
    """Show one RUN as a page, or several (by default all) as a table with a row per
    point. A folder stands for its runs.

    --by framework compares the frameworks that ran the same point, the fastest first.
    --format html is one file with plots that needs no network.

    --history names the dates at which the step time of a point changed, by how much,
    and what changed with it: nodes, driver, image, versions, options; exit code 1 if
    the newest change made a point slower.

    With --keep DIR gets what each run measured: spec, environment, metrics, verdict and
    the compressed logs, without this machine's names and paths. A run gets a directory
    there; if DIR has an index.jsonl, as results/measured has, it is added to the
    archives. Nothing is overwritten.

    With --baseline the report shows verdicts against that baseline in place of the
    stored ones, and stores none.

    The exit code is that of the worst run: 0 if every run passed; 1 if one is slow; 4
    if one gives no clear answer, failed or was not judged, or if there is no run.
    """
    if keep and not runs:
        raise UserError("--keep needs the RUNS to keep", hint="benchrun status lists them")
    if plot is not None:
        check_new(plot)
    form = _form_of(output, form, as_json)
    _check_history(history, by, form, plot)
    _check_verdicts(verdicts, history=history)
    names = tuple(name for each in recipes for name in each.split(","))
    wanted = Wanted(names, since, until, verdicts)
    chosen, code = _reported(runs, wanted)
    if keep:
        for run in chosen:
            say(f"kept {api.keep(run, keep).path}")
    if history and form in TEXTS:
        show_history = extensions.capability("history.verb", "show_history")
        return worst((code, show_history(chosen, by, form, output)))
    rows = "scaling" if scaling or plot else by
    return worst((code, _runs(chosen, runs, rows, form, output, plot, baseline, wanted)))


def _runs(
    chosen: "Sequence[RunDir]",
    names: Sequence[str],
    rows: str,
    form: str,
    output: Path | None,
    plot: Path | None,
    baseline: str | None,
    wanted: Wanted,
) -> Exit:
    """Print the report on the ``chosen`` runs, which the caller called ``names``;
    returns the exit code.
    """
    drawn = form not in TEXTS
    verdicts, unjudged = _verdicts(chosen, baseline) if baseline else ({}, Exit.OK)
    if output is not None and len(chosen) > MANY:
        say(f"reading {len(chosen)} runs")
    data, failed = each(
        chosen, lambda run: api.run_data(run, verdicts.get(run), drawn=drawn), run_id
    )
    if names and not data:
        return failed
    data = list(filter(wanted.judged, data))
    if not data:
        raise NoNumberError(f"no run has the verdict {' or '.join(wanted.verdicts)}")
    model = api.report_on(data, scaling=drawn or rows == "scaling")
    if rows == "scaling" and not model.curves:
        say(
            "no curve: runs of one workload on at least two numbers of GPUs make one, with the same layout and batch"
        )
    write_text(
        _text(model, form, rows, one=len(names) == len(chosen) == 1, to_file=output is not None),
        output,
        f": {_counted(data)}",
    )
    if form in TEXTS and model.left_out:
        say(model.left_out)
    if plot and model.curves:
        from benchrun.show.curve import scaling_plots
        from benchrun.show.plot import save

        save(list(scaling_plots(model.curves)), plot)
    return worst((unjudged, failed if names else Exit.OK, *map(_code, data)))


def _reported(names: Sequence[str], wanted: Wanted) -> "tuple[list[RunDir], Exit]":
    """The runs called ``names``, or all that a report has, and the exit code.
    NoNumberError if there is none.
    """
    found, code = opened(names, open_name=api.runs_at)
    if not names:
        found = [run for run in found if run.spec.reported]
    known = sorted({run.spec.recipe for run in found})
    for recipe in wanted.recipes:
        if found and recipe not in known:
            message = f"none of {len(found)} runs is of the recipe '{recipe}'"
            raise NoNumberError(message, hint=closest(recipe, known))
    chosen = list(filter(wanted.fits, found))
    if found and not chosen:
        raise NoNumberError(
            f"none of {len(found)} runs is of this time",
            hint="benchrun report without --since and --until has them all",
        )
    if not chosen and code is Exit.OK:
        raise NoNumberError(no_runs())
    return chosen, code


def _counted(data: "Sequence[RunResult]") -> str:
    """How many runs there are, and how many with each verdict."""
    parts = []
    for name, count in Counter(result.judgement for result in data).most_common():
        parts.append(f"{count} {name.replace('_', ' ')}")
    return f"{len(data)} run{'s' * (len(data) > 1)}: {', '.join(parts)}"


def _check_verdicts(names: Sequence[str], *, history: bool) -> None:
    """UserError for a word that is no verdict and no ending."""
    if history and names:
        raise UserError("a history has runs of all verdicts", hint="leave --verdict out")
    if not names:
        return
    from typing import get_args

    from benchrun.judge.checks import Name
    from benchrun.rundir.artifacts import Ending

    legal = [*get_args(Name), "not_judged", *(ending.value for ending in Ending)]
    for name in names:
        if name not in legal:
            raise UserError(f"no verdict is called '{name}'", hint=closest(name, legal))


def _text(model: "ReportModel", form: str, rows: str, *, one: bool, to_file: bool) -> str:
    """The report in the format ``form``, as wide as the terminal if it goes there."""
    if form == "json":
        return json_text(_curves(model) if rows == "scaling" else model.rows(rows).records())
    from benchrun.show.formats import formatted
    from benchrun.show.table import LINE

    width = LINE
    if sys.stdout.isatty() and not to_file:
        width = shutil.get_terminal_size().columns
    return formatted(model, form, rows, one=one, width=width)


def _check_history(history: bool, by: str, form: str, plot: Path | None) -> None:
    """UserError for options that do not go together."""
    if by in SPLITS and not history:
        raise UserError(f"--by {by} splits a history", hint="add --history")
    if history and plot:
        raise UserError(
            "--plot draws curves over GPUs", hint="--format csv has every run of a history"
        )
    if form == "html" and by in SPLITS:
        raise UserError(
            f"the HTML page has no histories by {by}",
            hint="--format terminal, markdown or csv, or --json",
        )
    if form in ("junit", "prometheus") and history:
        raise UserError(f"a history has no form for {form}", hint="--format csv or --json")


def _verdicts(runs: "Sequence[RunDir]", baseline: str) -> "tuple[dict[RunDir, Verdict], Exit]":
    """The verdict of each run against ``baseline``, its repeats together, and the exit
    code.
    """

    def judge(group: "Sequence[RunDir]") -> "dict[RunDir, Verdict]":
        return dict.fromkeys(group, api.judge_runs(group, None, baseline).verdict)

    judged, code = each(api.repeats(runs), judge, lambda group: group[0].run_id)
    return {run: verdict for group in judged for run, verdict in group.items()}, code


def _code(result: "RunResult") -> Exit:
    """The exit code of one run: a run that was not judged gives no answer."""
    if result.verdict:
        return result.verdict.exit_code
    return Exit.INCONCLUSIVE


def _curves(model: "ReportModel") -> dict[str, Any]:
    """The curves as a JSON document."""
    return {"schema_version": 1, "curves": [view.document() for view in model.curves]}


def _form_of(output: Path | None, form: str | None, as_json: bool) -> str:
    """The format: that of the file's ending, else the one given, else what suits the
    place.

    UserError if file, --format and --json contradict each other, if none names one, and
    if the file exists.
    """
    if output is not None:
        check_new(output)
    if as_json and form not in (None, "json"):
        raise UserError(f"--json and --format {form} contradict each other", hint="leave one out")
    if as_json:
        form = "json"
    if output is None:
        return form or ("terminal" if sys.stdout.isatty() else "markdown")
    of_ending = ENDINGS.get(output.suffix)
    if of_ending and form and of_ending != form:
        raise UserError(
            f"--output {output} is a file of {of_ending}, and --format says {form}",
            hint="leave one out",
        )
    if not (of_ending or form):
        hint = f"one of {' '.join(ENDINGS)}, or --format"
        raise UserError(f"--output {output}: the ending names no format", hint=hint)
    return of_ending or form or ""
