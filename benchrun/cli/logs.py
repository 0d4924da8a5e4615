"""Verbs on logs: parse, compare. ``compare`` judges runs too."""

import contextlib
import time
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchrun import api, extensions, kept, paths
from benchrun.errors import UserError
from benchrun.files import check_new, write_new
from benchrun.rundir.artifacts import SPEC, STDOUT, VERDICT
from benchrun.vocabulary import MOST_LAYERS, Exit, worst

from .complete import runs_or_files
from .options import (
    FILE,
    baseline_option,
    each,
    flags,
    log_options,
    opened,
    print_json,
    print_views,
    read_logs,
    say,
)

if TYPE_CHECKING:
    from benchrun.api import Log, Metrics, Rows, RunDir, Summary, Verdict

    Result = tuple[Verdict, Metrics | None, str | None]
    """A verdict, its numbers, and the name of its log."""

FOLLOW_S = 1.0
"""Seconds between two reads of a growing log."""
REST_READS = 3
"""Reads after the message that a job was ended: the rest of what its ranks print."""


@click.command("parse")
@click.argument("logs", nargs=-1, required=True, type=FILE, metavar="LOG...")
@log_options
@click.option(
    "--steps",
    metavar="csv|jsonl|FILE",
    help="Print the step rows as csv or jsonl, or write them to FILE.",
)
@click.option("--plot", type=FILE, metavar="FILE", help="Draw a metric over the steps.")
@click.option("--metric", metavar="NAME", help="What --plot draws; the step time if not given.")
@click.option("--follow", is_flag=True, help="Print the steps of a growing log until its job ends.")
def parse(
    logs: tuple[Path, ...],
    warmup: int | None,
    framework: str | None,
    steps: str | None,
    plot: Path | None,
    metric: str | None,
    follow: bool,
    as_json: bool,
    recipe: str | None,
    **given: Any,
) -> int:
    """Measure a LOG: step time, tokens/s/GPU, TFLOPS, problems; or read what a client
    measured of a server.

    A LOG is a file (plain, gzip, zstd or xz), a directory (also that of a run), or -
    for stdin. Files that agree in everything they state are read as one run: those of
    ranks and nodes, stdout and stderr, before and after a requeue. Any other file is a
    run of its own, and --json gives an array. A value that the log does not hold is
    null. Exit code 4: no step, an early end, a fatal problem, or a rate above the GPU's
    peak.
    """
    for file in (plot, Path(steps) if steps and Path(steps).suffix else None):
        if file is not None:
            check_new(file)
    setting = api.completed_setting(recipe, api.Setting(**given))
    form = _steps_format(steps) if steps else None
    if form and steps == form and as_json:
        raise UserError("--json and --steps both print to stdout", hint="--steps FILE.csv")
    if metric and not plot:
        raise UserError("--metric names what --plot draws", hint="add --plot FILE")
    parsed = [_follow(logs, framework)] if follow else read_logs(logs, framework)
    _check_options(parsed, given)
    settings = []
    summaries = []
    for log in parsed:
        settings.append(api.setting_beside(log, setting))
        summaries.append(api.summarise_log(log, settings[-1], logs, warmup))
    if len(parsed) > 1 and (steps or plot):
        names = "; ".join(log.file for log in parsed)
        raise UserError(
            f"{'--steps' if steps else '--plot'} takes one run, these are {len(parsed)}: {names}"
        )
    if steps and form:
        _write_steps(parsed[0].steps, form, steps)
    if plot and summaries[0].num_steps:
        plot_steps = extensions.capability("html.steps_plot", "plot_steps")
        plot_steps(api.rows_of(parsed[0], settings[0]), summaries[0], plot, metric)
    if steps is None or steps != form:  # otherwise the rows are on stdout
        _print_summaries(summaries, as_json)
    return worst(map(_exit_code, summaries))


def _print_summaries(summaries: "Sequence[Summary]", as_json: bool) -> None:
    """Print what was measured in each log; as JSON one object, or an array of several."""
    if as_json:
        documents = [summary.document() for summary in summaries]
        print_json(documents if len(documents) > 1 else documents[0])
    else:
        from benchrun.show.terminal import summary_view

        print_views(*map(summary_view, summaries))


def _exit_code(summary: "Summary") -> Exit:
    """INCONCLUSIVE if a log gives no number to rely on; a log without steps is named on
    stderr.
    """
    empty = not summary.num_steps and not summary.results
    if empty:
        nothing = (
            f"no step and no result of any known framework ({', '.join(sorted(api.DIALECTS))})"
        )
        causes = []
        for each in summary.problems:
            if each.kind in ("truncated_file", "no_document"):
                causes.append(each.detail)
        say(f"{summary.file}: {causes[0] if causes else nothing}")
        if extensions.has("traces") and (hint := api.trace_hint(Path(summary.file))):
            say(f"hint: {hint}")
    all_dropped = 0 < summary.num_steps <= summary.warmup_rows_dropped
    if all_dropped:
        rows = summary.warmup_rows_dropped
        say(f"{summary.file}: all {rows} rows were dropped as warm-up: --warmup below {rows}")
    is_empty = empty or all_dropped or api.unreliable(summary)
    if is_empty:
        return Exit.INCONCLUSIVE
    return Exit.OK


def _steps_format(steps: str) -> str:
    """The format that ``--steps`` names, or the file's name ends in."""
    from benchrun.show.table import STEP_FORMATS

    form = steps if steps in STEP_FORMATS else Path(steps).suffix.lstrip(".")
    if form not in STEP_FORMATS:
        raise UserError(
            f"--steps {steps}: expected csv, jsonl or a file name that ends in .csv or .jsonl"
        )
    return form


def _write_steps(rows: "Rows", form: str, target: str) -> None:
    """Write the rows to a file, or to stdout if ``target`` is the format alone."""
    from benchrun.show.table import step_lines

    text = "".join(f"{line}\n" for line in step_lines(rows, form))
    if target == form:
        click.echo(text, nl=False)
    else:
        write_new(Path(target), text)


def _follow(logs: Sequence[Path], framework: str | None) -> "Log":
    """Print the steps of one growing log until it is complete, its job has ended, or
    the user interrupts; the log.
    """
    if (
        len(logs) != 1
        or logs[0].is_dir()
        or str(logs[0]) == "-"
        or logs[0].suffix in (".gz", ".xz", ".zst")
    ):
        raise UserError(
            "--follow takes one file that is not compressed",
            hint=f"benchrun parse --follow run/{STDOUT}",
        )
    if not logs[0].exists():
        say(f"{logs[0]} does not exist yet; waiting for it")
    tail = api.Tail(logs[0], framework)
    reads_since_end = 0
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for row in tail.read():
                timing = ""
                if row.step_time_s:
                    timing = f"{row.step_time_s:.4g} s"
                rate = ""
                if row.tokens_per_s_per_gpu:
                    rate = f"{row.tokens_per_s_per_gpu:,.0f} tokens/s/GPU"
                loss = ""
                if row.loss is not None:
                    loss = f"loss {row.loss:.4f}"
                say("  ".join(filter(None, (f"step {row.step}", timing, rate, loss))))
            log = tail.log()
            reads_since_end = reads_since_end + 1 if api.job_ended(log) else 0
            if log.complete(log.planned_steps) or reads_since_end > REST_READS:
                return log
            time.sleep(FOLLOW_S)
    return tail.log()


@click.command("compare")
@click.argument("runs_or_logs", nargs=-1, required=True, shell_complete=runs_or_files)
@log_options
@click.option(
    "--num-layers",
    type=click.IntRange(1, MOST_LAYERS),
    help="Number of layers of the proxy that the log trained.",
)
@baseline_option
def compare(
    runs_or_logs: tuple[str, ...],
    recipe: str | None,
    warmup: int | None,
    baseline: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Judge RUNS or LOGS against reference numbers. Repeats of one point are judged
    together.

    A log is compared under the conditions that it states; the options add those that it
    does not state, the recipe too unless a job of benchrun printed it. Logs of
    different runs are judged one by one. The reference is the published number that
    fits best, or what --baseline names.

    The verdict of your own runs is stored, and `report` shows it. A verdict with
    --warmup or --baseline is printed and not stored.
    """
    files = list(map(Path, runs_or_logs))
    is_log = any(kept.place(file).is_file() or str(file) == "-" for file in files)
    if recipe is None and not is_log:
        if named := [name for name, value in given.items() if value is not None]:
            raise UserError(
                f"{flags(named)}: a run states its own conditions",
                hint="with a log, add --recipe NAME",
            )
        chosen, code = opened(runs_or_logs)
        return worst((code, print_verdicts(chosen, as_json, warmup, baseline)))
    root = paths.runs_dir()
    if runs := [
        file
        for file in files
        if (kept.place(file) / SPEC).is_file() or (root / file / SPEC).is_file()
    ]:
        raise UserError(
            f"{runs[0]} is a run and states its own recipe",
            hint="compare it alone, without logs and without --recipe",
        )
    logs = read_logs(files, given.pop("framework"))
    options = dict(given)
    num_layers = given.pop("num_layers")

    def judge(log: "Log") -> "Result":
        name = recipe or log.facts.recipe
        if name is None:
            raise UserError(
                "the log does not name its recipe",
                where=log.file,
                hint="add --recipe NAME; benchrun list shows them",
            )
        setting = api.completed_setting(name, api.Setting(**given), num_layers)
        verdict, metrics = api.judge_log(log, name, setting, warmup, baseline)
        _check_options([log], options)
        return verdict, metrics, log.file

    results, code = each(logs, judge, attrgetter("file"))
    return worst((code, print_results(results, as_json, several=len(logs) > 1)))


def _check_options(logs: "Sequence[Log]", options: dict[str, Any]) -> None:
    """Say on stderr which options replace a guess. UserError for an option that a log
    contradicts.
    """
    for log in logs:
        for sentence in api.check_options(log, options):
            say(sentence if len(logs) == 1 else f"{log.file}: {sentence}")


def print_verdicts(
    runs: "Sequence[RunDir]",
    as_json: bool = False,
    warmup: int | None = None,
    reference: str | None = None,
) -> Exit:
    """Judge runs, store and print the verdicts, and return the exit code."""
    for run in runs:
        why = " (not one of your runs)" if run.read_only else ""
        if not run.writable:
            stored = run.read_json(VERDICT) or {}
            name = str(stored.get("verdict", "none")).replace("_", " ")
            words = f"the verdict is only printed; reports show the stored one, {name}"
            say(f"warning: {run.path} cannot be written{why}: {words}")

    def judge(group: "Sequence[RunDir]") -> "Result":
        judgement = api.judge_runs(group, warmup, reference, others=runs)
        api.store_judgement(judgement, what_if=warmup is not None or reference is not None)
        return judgement.verdict, judgement.metrics, None

    groups = api.repeats(runs)
    results, code = each(groups, judge, lambda group: group[0].run_id)
    return worst((code, print_results(results, as_json, several=len(groups) > 1)))


def print_results(results: "Sequence[Result]", as_json: bool, *, several: bool = False) -> Exit:
    """Print verdicts, with the name of each log if ``several``, and return the worst
    exit code.

    One verdict is one JSON object, ``several`` are an array.
    """
    if as_json and results:
        names = [{"file": file} if file and several else {} for _, _, file in results]
        documents = []
        for name, result in zip(names, results, strict=True):
            documents.append(name | result[0].document())
        print_json(documents if several else documents[0])
    elif results:
        from rich.text import Text

        from benchrun.show.terminal import verdict_view

        for verdict, metrics, file in results:
            print_views(*([Text(file)] if file and several else []), verdict_view(verdict, metrics))
    return worst(verdict.exit_code for verdict, _, _ in results)
