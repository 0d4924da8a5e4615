"""A log and the setting of its run -> metrics.json (`measure`) or ``parse --json``
(`summarise`).
"""

from typing import Any

import numpy as np

from benchrun.logs.records import Log, Problem
from benchrun.model import ModelShape
from benchrun.vocabulary import DEGREES

from . import clock
from .model import (
    Conventions,
    MeanMedian,
    Measurement,
    Metrics,
    Mfu,
    ProblemEntry,
    Summary,
    Window,
)
from .printed import contradictory_dates, contradictory_rates
from .problems import contradictions, contradictory_layout, fatal_problem
from .rows import CompletedRows, completed_rows, lowest_rate, too_fast
from .serving import answered, counts, result_problems, stated_settings
from .setting import Setting, setting_of_log
from .stated import losses, middles, other_windows, quantities, reported, rewards
from .statistics import (
    MIN_INTERVAL_ROWS,
    confidence_interval,
    spread,
    warmup_rows,
)
from .steadiness import steadiness
from .training import no_training, updates

COARSE_S = 10.0
"""Seconds of a row below which a clock of whole seconds is more than 5 % uncertain:
only the mean of many rows counts.
"""

MOST_COUNTED = 2.0
"""Factor by which a printed TFLOPS may exceed a peak: whole scores count twice what
causal attention computes.
"""
AT_MOST_FULL = frozenset(
    {"full", "causal", "causal_ungated", "causal_unwindowed", "causal_ungated_unwindowed"}
)
"""Conventions by which a model has at most the FLOPs of ``full`` without windows."""
ENOUGH_ROWS = 20_000
"""Rows at the end of a longer run from which steadiness and interval follow; the spread
is that of all rows.
"""
NO_SPEED = frozenset({"two_jobs", "newest_first"})
"""Kinds of problems after which the rows are not those of one run in order, so that
nothing of them is a speed.
"""
UNKNOWN = "unknown_option"
"""Kind of the problem of a log whose options are not all understood."""
NAMED = ("gpu", "precision", "num_gpus")
"""Facts of its setting that a measurement repeats."""


def measure(
    log: Log, setting: Setting, *, planned_steps: int | None, warmup: int | None = None
) -> Metrics:
    """Metrics of one run. What the log states of its setting wins over ``setting``, and
    is a problem.

    ``setting`` names the GPU, their number and the precision. The first ``warmup`` rows
    are dropped, by default 5 or a tenth of the rows.
    """
    logged = setting_of_log(log, setting)
    planned = log.planned_steps if planned_steps is None else planned_steps
    measurement = _measurement(log, logged, planned, warmup, launched=setting.model)
    problems = (*measurement.problems, *contradictions(log, setting))
    return Metrics(
        **{**dict(measurement), **_fields(setting, *NAMED), "problems": problems, "warmup": warmup}
    )


def summarise(log: Log, *, warmup: int | None = None, given: Setting | None = None) -> Summary:
    """Reduce ``log``; ``warmup`` rows are dropped (the default rule if None). The log
    wins over ``given``.
    """
    setting, facts, steps = (
        setting_of_log(log, given or Setting()),
        log.facts,
        log.distinct.column("step"),
    )
    return Summary(
        **dict(_measurement(log, setting, log.planned_steps, warmup)),
        **_fields(log, "file", "segments", "post_training"),
        **_fields(facts, "run_time_s", "framework_version", "task"),
        first_step=int(steps[0]) if len(steps) else None,
        last_step=int(steps[-1]) if len(steps) else None,
        unknown_options=list(setting.unknown_options),
        stated_peak=setting.peak,
        seq_length=setting.seq_length,
        global_batch_size=setting.gbs,
        micro_batch_size=facts.mbs,
        layout=_fields(facts, *DEGREES),
        model=setting.model.model_dump(exclude_defaults=True) if setting.model else None,
    )


def _fields(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _measurement(
    log: Log,
    setting: Setting,
    planned_steps: int | None,
    warmup: int | None,
    launched: ModelShape | None = None,
) -> Measurement:
    """The numbers of ``log``. With a rate above the GPU's peak, which is impossible, it
    has no speed.

    ``launched`` is the model that was to be trained.
    """
    values = completed_rows(log, setting)
    count = len(values.step)
    dropped = warmup_rows(count) if warmup is None else min(warmup, count)
    inside = values.measured(np.arange(count) >= dropped)
    first = int(values.step[min(dropped, count - 1)]) if count else 0
    if any(problem.kind in NO_SPEED for problem in log.problems):
        values = inside = values.chosen(np.zeros(count, bool))
    speeds, rate, notes = _speeds(log, setting, values, inside)
    step_time = speeds.get("step_time_s")
    notes += contradictory_dates(log, inside, step_time and step_time.median)
    served = [*result_problems(log, setting.num_prompts)]
    notes += [
        *_printed_mfu(inside),
        *contradictory_rates(log, setting, inside, (launched, setting.model)),
    ]
    notes += [*contradictory_layout(log.facts), *_unknown(setting)]
    notes += [*_assumed_length(log, setting), *_other_header(log)]
    problems = (*log.problems, *values.problems(), *no_training(log, first), *served, *notes)
    steps_timed, skipped, skipped_share = updates(log)
    fatal = fatal_problem(log, problems, planned_steps, skipped_share)
    stated = planned_steps is not None or log.results or log.unfinished
    complete = log.complete(planned_steps) if stated else None
    return Measurement(
        **_fields(setting, *NAMED),
        derived=dict(setting.derived),
        **_fields(log, "framework", "only_average", "whole_seconds", "profiled_after"),
        results=counts(log) if served and fatal else log.results,
        settings=stated_settings(log),
        complete=answered(log, served) if log.served else complete,
        planned_steps=planned_steps,
        num_steps=count,
        steps_timed=steps_timed,
        skipped_updates=skipped,
        skipped_share=skipped_share,
        warmup_rows_dropped=dropped,
        peak_memory_gib=log.facts.peak_memory_gib,
        **reported(log, setting, inside, rate),
        **rewards(log),
        **losses(log),
        problems=tuple(map(_entry, problems)),
        fatal=_entry(fatal) if fatal else None,
        **speeds,
    )


def _speeds(
    log: Log, setting: Setting, values: CompletedRows, inside: CompletedRows
) -> tuple[dict[str, Any], float | None, list[Problem]]:
    """Step time, throughput, TFLOPS and MFU of the rows ``inside``, by field;
    tokens/s/GPU; what makes them worth less.

    There are no fields if the rate is impossible.
    """
    timed = inside.chosen(~np.isnan(inside.step_time_s))
    coarse = _coarse(log, timed)
    tokens = _tokens(log, inside, timed, coarse=coarse)
    times, notes = _times(log, timed, coarse=coarse)
    lowest = lowest_rate(log, values.tokens_per_s_per_gpu, values.step_time_s * values.interval)
    rates, impossible = _rates(setting, tokens.median, too_fast(lowest, setting))
    impossible = impossible or _printed_above_peak(log, setting, inside)
    steps = timed.step if len(timed.step) else inside.step
    speeds = {
        **times,
        "window": Window(first_step=int(steps[0]), last_step=int(steps[-1]), rows=len(steps))
        if len(steps)
        else None,
        "quantities": quantities(log, steps),
        "other_windows": other_windows(values),
        "tokens_per_s_per_gpu": tokens,
        **rates,
    }
    return {} if impossible else speeds, tokens.median, notes + impossible


def _coarse(log: Log, timed: CompletedRows) -> bool:
    """Whether a single row is too uncertain, because the clock of the log is too coarse
    for it.
    """
    spans = timed.step_time_s * timed.interval
    return log.whole_seconds and len(spans) > 0 and float(np.median(spans)) < COARSE_S


def _rates(
    setting: Setting, rate: float | None, above: float | None
) -> tuple[dict[str, Any], list[Problem]]:
    """TFLOPS and MFU at ``rate`` tokens/s/GPU, by field; a problem if they, or the
    share ``above`` of the rows, are above the GPU's peak.
    """
    flops, tflops = setting.flops_per_token(), None
    if flops and rate is not None:
        tflops = Conventions(full=rate * flops.full / 1e12, causal=rate * flops.causal / 1e12)
    mfu = _mfu(setting, tflops, setting.precision or "bf16")
    bf16 = _mfu(setting, tflops, "bf16")
    rates: dict[str, Any] = {"tflops_per_gpu": tflops, "mfu": (mfu,) if mfu else ()}
    if bf16 and (mfu is None or mfu.divisor != bf16.divisor):
        rates["bf16_peak_ratio"] = Conventions(full=bf16.full, causal=bf16.causal)
    bound = setting.bound
    fastest = bound.fastest_precision
    limit = _mfu(bound, tflops, fastest) if fastest else None
    if limit and (limit.causal > 1 or above):
        what = (
            f"{limit.causal:.2f} times"
            if limit.causal > 1
            else f"{100 * (above or 0):.0f} % of the steps are above"
        )
        detail = f"{what} the peak of {limit.divisor}: check GPU, precision, batch, sequence, model"
        return rates, [Problem("impossible_rate", None, detail)]
    return rates, []


def _printed_above_peak(log: Log, setting: Setting, inside: CompletedRows) -> list[Problem]:
    """A problem if the model is unknown, and the printed TFLOPS would need more than
    the GPU's peak.
    """
    printed = middles(inside.tflops_per_gpu, inside.interval).median
    setting = setting.bound
    fastest = setting.fastest_precision
    peak = setting.peak_tflops(fastest) if fastest else None
    other = not set(log.printed_conventions) <= AT_MOST_FULL
    if (
        other
        or setting.flops_per_token()
        or not (printed and peak and printed > MOST_COUNTED * peak)
    ):
        return []
    detail = f"{printed:.4g} TFLOPS are printed, the peak of {setting.gpu} is {peak:g}: check GPU and precision"
    return [Problem("impossible_rate", None, detail)]


def _printed_mfu(inside: CompletedRows) -> list[Problem]:
    """A note if the framework divides by the peak of a slower GPU than it runs on."""
    printed = middles(inside.mfu, inside.interval).median
    if printed is None or printed <= 1:
        return []
    detail = f"{100 * printed:.4g} % are printed, and no MFU is above 100 %: the framework took another GPU's peak"
    return [Problem("printed_mfu", None, detail)]


def _tokens(log: Log, inside: CompletedRows, timed: CompletedRows, *, coarse: bool) -> MeanMedian:
    """Tokens/s/GPU; the mean over the time in place of the median if a single row is
    too uncertain.
    """
    tokens = middles(inside.tokens_per_s_per_gpu, inside.interval)
    if log.only_average:
        return MeanMedian(mean=tokens.mean, median=_mean_rate(timed, tokens))
    rate = _mean_rate(timed, tokens) if log.whole_seconds and len(timed.step) else None
    if rate is None:
        return tokens
    mean_s = spread(timed.step_time_s, timed.interval).mean
    usual_s = clock.middle(timed.step_time_s, timed.interval, timed.step, coarse=coarse)
    return MeanMedian(mean=tokens.mean, median=rate * mean_s / usual_s)


def _times(log: Log, timed: CompletedRows, *, coarse: bool) -> tuple[dict[str, Any], list[Problem]]:
    """Spread, confidence and steadiness of the step time, by field, and what makes them
    worth less.
    """
    if not len(timed.step):
        return {}, []
    step_time = spread(timed.step_time_s, timed.interval)
    if log.only_average:
        mean = f"{step_time.mean:.4g} s"
        detail = f"only the mean over the whole run is printed ({mean}), with start-up and evaluation in it"
        return {"step_time_s": step_time}, [Problem("only_average", None, detail)]
    if coarse:
        stretches = 1 + np.count_nonzero(clock.after_gap(timed.interval, timed.step))
        error = 100 * stretches / float(np.sum(timed.step_time_s * timed.interval))
        detail = f"the log prints whole seconds, which tell the step time to about {error:.0f} %"
        usual_s = clock.middle(timed.step_time_s, timed.interval, timed.step, coarse=True)
        step_time = step_time.model_copy(update={"median": usual_s})
        return {"step_time_s": step_time}, [Problem("coarse_clock", None, detail)]
    steps, last = timed.step[-ENOUGH_ROWS:], timed.step_time_s[-ENOUGH_ROWS:]
    resolution_s, smooth = 0.0, last
    if log.whole_seconds:
        usual_s = clock.middle(timed.step_time_s, timed.interval, timed.step, coarse=False)
        step_time = step_time.model_copy(update={"median": usual_s})
        # Differences of whole seconds jump by one; their means over a few rows do not.
        resolution_s = 1 / float(np.median(np.diff(steps))) if len(steps) > 1 else 0.0
        smooth = last[: len(last) // 5 * 5].reshape(-1, 5).mean(axis=1)
    enough = not log.whole_seconds or len(smooth) >= MIN_INTERVAL_ROWS
    interval = confidence_interval(smooth) if enough else None
    if (
        interval and log.whole_seconds
    ):  # the median is a whole number, beside which the means of rows may lie
        ends = min(interval.low, step_time.median), max(interval.high, step_time.median)
        interval = interval.model_copy(update=dict(zip(("low", "high"), ends, strict=True)))
    return {
        "step_time_s": step_time,
        "step_time_interval_s": interval,
        "steadiness": steadiness(last, steps=steps, resolution_s=resolution_s),
    }, []


def _mean_rate(timed: CompletedRows, tokens: MeanMedian) -> float | None:
    """Tokens over time, if single rows are too uncertain for a median."""
    usable = timed.chosen(~np.isnan(timed.tokens_per_s_per_gpu))
    spans = usable.step_time_s * usable.interval
    spent = float(np.sum(spans))
    if spent:
        return float(np.sum(usable.tokens_per_s_per_gpu * spans)) / spent
    return tokens.median


def _mfu(setting: Setting, tflops: Conventions | None, precision: str) -> Mfu | None:
    """TFLOPS over the dense peak of this precision; None for a GPU without a listed
    one.
    """
    peak = setting.peak_tflops(precision)
    if peak is None or tflops is None:
        return None
    divisor = f"{setting.gpu or 'GPU'} {precision} dense"
    return Mfu(
        divisor=divisor, peak_tflops=peak, full=tflops.full / peak, causal=tflops.causal / peak
    )


def _unknown(setting: Setting) -> list[Problem]:
    """A problem for the options of a log that change the work of a step and are not
    understood.
    """
    if not setting.unknown_options:
        return []
    detail = f"the FLOPs of a step are not known with {', '.join(setting.unknown_options)}"
    return [Problem(UNKNOWN, None, detail)]


def _other_header(log: Log) -> list[Problem]:
    """A note if the rows print another batch at last than the log states before them."""
    printed = log.steps.batches()[0][-1:]
    if not log.facts.gbs or not (printed > 0).any() or printed == log.facts.gbs:
        return []
    detail = f"the log states a global batch of {log.facts.gbs}, its rows print {printed[0]:.0f}, which counts"
    return [Problem("other_batch", None, detail)]


def _assumed_length(log: Log, setting: Setting) -> list[Problem]:
    """A note if the caller states the length of samples of which the log states a
    limit.
    """
    if not (log.facts.variable_length and setting.fixed_length and setting.seq_length):
        return []
    detail = f"every sample is taken to have {setting.seq_length} tokens: the log states a limit, they may have fewer"
    return [Problem("assumed_length", None, detail)]


def _entry(problem: Problem) -> ProblemEntry:
    detail = f"{problem.source}: {problem.detail}" if problem.source else problem.detail
    return ProblemEntry(
        kind=problem.kind, line=problem.line, detail=detail, host=problem.host, rank=problem.rank
    )
