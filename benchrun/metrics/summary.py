"""A log and the setting of its run -> metrics.json (`measure`) or ``parse --json`` (`summarise`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun import hardware
from benchrun.metrics.convention import identify
from benchrun.metrics.model import (
    NO_WINDOWS,
    NOTHING,
    Conventions,
    Layout,
    MeanMedian,
    Metrics,
    Mfu,
    OtherWindows,
    ProblemEntry,
    Summary,
    Window,
)
from benchrun.metrics.problems import fatal_problem, other_conditions, skipped_share, unexplained, updates
from benchrun.metrics.rows import Measured, measured
from benchrun.metrics.setting import Setting, stated
from benchrun.metrics.statistics import (
    MIN_INTERVAL_ROWS,
    Floats,
    Interval,
    Spread,
    confidence_interval,
    spread,
    warmup_rows,
)
from benchrun.metrics.steadiness import Steadiness, steadiness
from benchrun.model.flops import flops_per_token
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.records import Log, Problem

COARSE_S = 10.0
"""With a clock of whole seconds a shorter row is more than 5 % uncertain: only the mean of many rows counts."""

ENOUGH_ROWS = 20_000
"""Rows at the end of a longer run from which steadiness and interval follow; the spread is that of all rows."""
FASTER_THAN_LISTED = frozenset({"nvfp4"})
"""Precisions that may exceed every listed peak: none of their speeds is impossible."""


def measure(log: Log, setting: Setting, *, planned_steps: int | None, warmup: int | None = None) -> Metrics:
    """Metrics of one run. What the log states of its setting wins over ``setting``, and is a problem.

    ``setting`` names the GPU, their number and the precision. The first ``warmup`` rows are dropped, by default 5 or a
    tenth of the rows.
    """
    summary = summarise(log, warmup=warmup, given=setting, planned_steps=planned_steps)
    steps, skipped = updates(log)
    problems = (*summary.problems, *other_conditions(log, setting), *unexplained(log, summary, setting))
    own = {name: getattr(setting, name) for name in ("gpu", "precision", "num_gpus")}
    return Metrics(
        **{**summary.shared(), **own, "problems": problems},
        only_average=log.only_average,
        whole_seconds=log.whole_seconds,
        warmup=warmup,
        steps_timed=steps,
        skipped_updates=skipped,
    )


def summarise(
    log: Log, *, warmup: int | None = None, given: Setting | None = None, planned_steps: int | None = None
) -> Summary:
    """Reduce ``log``; ``warmup`` rows are dropped (the default rule where None). The log wins over ``given``.

    ``planned_steps`` are those of the launched run; the log's own where None.

    A rate above the GPU's peak is impossible: it becomes a problem and gives no number.
    """
    conditions = stated(log, given or Setting())
    planned = log.planned_steps if planned_steps is None else planned_steps
    values = measured(log, conditions)
    count = len(values.step)
    dropped = warmup_rows(count) if warmup is None else min(warmup, count)
    inside = values.chosen((np.arange(count) >= dropped) & ~values.impossible)
    timed = inside.chosen(~np.isnan(inside.step_time_s))
    coarse = log.whole_seconds and _middle_span(timed) < COARSE_S
    step_time, interval, even, notes = _times(log, timed, coarse=coarse)
    tokens = _middles(inside.tokens_per_s_per_gpu, inside.interval)
    if log.only_average or coarse:
        tokens = MeanMedian(mean=tokens.mean, median=_mean_rate(timed, tokens))
    reported = _middles(inside.tflops_per_gpu, inside.interval)
    tflops = _tflops(tokens.median, conditions)
    mfu = _mfu(conditions, tflops, conditions.precision or "bf16")
    bf16 = _mfu(conditions, tflops, "bf16")
    other = bf16 if mfu is None or (bf16 and mfu.divisor != bf16.divisor) else None
    ratio = Conventions(full=other.full, causal=other.causal) if other else None
    convention = _convention(reported.median, tokens.median, conditions)
    # Without a stated precision the highest peak counts.
    limit = _mfu(conditions, tflops, conditions.precision or "fp8") or bf16
    impossible = limit is not None and limit.causal > 1 and conditions.precision not in FASTER_THAN_LISTED
    if limit is not None and impossible:
        detail = f"{limit.causal:.2f} of the peak of {limit.divisor}: the steps cannot have been this fast"
        notes.append(Problem("impossible_rate", None, detail))
        step_time, interval, even, tokens, tflops, mfu, ratio = None, None, None, NOTHING, None, None, None
    first_loss, final_loss = _losses(log)
    problems = (*log.problems, *values.problems(), *notes)
    fatal = fatal_problem(log, problems, planned)
    return Summary(
        file=log.file,
        framework=log.framework,
        framework_version=log.facts.framework_version,
        segments=log.segments,
        first_step=int(values.step[0]) if count else None,
        last_step=int(values.step[-1]) if count else None,
        planned_steps=planned,
        num_steps=count,
        complete=log.complete(planned) if planned is not None or log.results else None,
        warmup_rows_dropped=dropped,
        window=None if impossible else _window(timed) or _window(inside),
        step_time_s=step_time,
        step_time_interval_s=interval,
        steadiness=even,
        other_windows=NO_WINDOWS if impossible else _other_windows(values),
        tokens_per_s_per_gpu=tokens,
        tflops_per_gpu_reported=reported,
        reported_convention=convention,
        tflops_per_gpu=tflops,
        mfu=(mfu,) if mfu else (),
        bf16_peak_ratio=ratio,
        mfu_reported=_middles(inside.mfu, inside.interval),
        first_loss=first_loss,
        final_loss=final_loss,
        run_time_s=log.facts.run_time_s,
        seq_length=conditions.seq_length,
        global_batch_size=conditions.gbs,
        micro_batch_size=log.facts.mbs,
        num_gpus=conditions.num_gpus,
        gpu=conditions.gpu,
        precision=conditions.precision,
        layout=Layout(**{name: getattr(log.facts, name) for name in Layout.model_fields}),
        model=conditions.model.model_dump(exclude_defaults=True) if conditions.model else None,
        problems=tuple(map(_entry, problems)),
        results=log.results,
        fatal=_entry(fatal) if fatal else None,
        skipped_share=skipped_share(log),
    )


def _times(
    log: Log, timed: Measured, *, coarse: bool
) -> tuple[Spread | None, Interval | None, Steadiness | None, list[Problem]]:
    """Spread, confidence and steadiness of the step time, and what makes them worth less."""
    if not len(timed.step):
        return None, None, None, []
    step_time = spread(timed.step_time_s, timed.interval)
    if log.only_average:
        detail = (
            f"only the mean over the whole run is printed ({step_time.mean:.4g} s), with start-up and evaluation in it"
        )
        return step_time, None, None, [Problem("only_average", None, detail)]
    if coarse:
        detail = "the log's clock has whole seconds, so the mean stands for the median"
        mean = step_time.model_copy(update={"median": step_time.mean})
        return mean, None, None, [Problem("coarse_clock", None, detail)]
    steps, last = timed.step[-ENOUGH_ROWS:], timed.step_time_s[-ENOUGH_ROWS:]
    # Differences of whole seconds jump by one; their means over a few rows do not.
    resolution_s = 1 / float(np.median(np.diff(steps))) if log.whole_seconds and len(steps) > 1 else 0.0
    smooth = last[: len(last) // 5 * 5].reshape(-1, 5).mean(axis=1) if log.whole_seconds else last
    sure = confidence_interval(smooth) if not log.whole_seconds or len(smooth) >= MIN_INTERVAL_ROWS else None
    return step_time, sure, steadiness(last, steps=steps, resolution_s=resolution_s), []


def _middle_span(timed: Measured) -> float:
    """Median time in s that a row stands for; COARSE_S without a row."""
    return float(np.median(timed.step_time_s * timed.interval)) if len(timed.step) else COARSE_S


def _mean_rate(timed: Measured, tokens: MeanMedian) -> float | None:
    """Tokens over time, where single rows are too uncertain for a median."""
    usable = timed.chosen(~np.isnan(timed.tokens_per_s_per_gpu))
    spans = usable.step_time_s * usable.interval
    spent = float(np.sum(spans))
    return float(np.sum(usable.tokens_per_s_per_gpu * spans)) / spent if spent else tokens.median


def _losses(log: Log) -> tuple[float | None, float | None]:
    """The first and the last that was printed."""
    losses = log.distinct.columns.column("loss")
    printed = losses[losses != NO_VALUE]
    return (_finite(printed[0]), _finite(printed[-1])) if len(printed) else (None, None)


def _window(rows: Measured) -> Window | None:
    steps = rows.step
    return Window(first_step=int(steps[0]), last_step=int(steps[-1]), rows=len(steps)) if len(steps) else None


def _other_windows(values: Measured) -> OtherWindows:
    last, step = values.step_time_s[-10:], values.step
    # The mean of several steps may be of others too.
    early = values.step_time_s[(values.interval == 1) & (step >= 35) & (step <= 44)]
    return OtherWindows(
        last_10_rows=_mean(last) if len(last) == 10 else None,
        steps_35_to_44=_mean(early) if len(early) and step[-1] >= 44 else None,
    )


def _mean(times: Floats) -> float | None:
    usable = times[~np.isnan(times)]
    return float(usable.mean()) if len(usable) else None


def _middles(values: Floats, weights: NDArray[Any]) -> MeanMedian:
    usable = ~np.isnan(values)
    if not usable.any():
        return NOTHING
    both = spread(values[usable], weights[usable])
    return MeanMedian(mean=both.mean, median=both.median)


def _tflops(tokens: float | None, conditions: Setting) -> Conventions | None:
    if tokens is None or conditions.model is None or not conditions.seq_length:
        return None
    flops = flops_per_token(conditions.model, conditions.seq_length, task=conditions.task)
    return Conventions(full=tokens * flops.full / 1e12, causal=tokens * flops.causal / 1e12)


def _mfu(conditions: Setting, tflops: Conventions | None, precision: str) -> Mfu | None:
    """TFLOPS over the dense peak of this precision; None for a GPU without a listed one."""
    gpu = hardware.gpu(conditions.gpu) if conditions.gpu else None
    peak = gpu.peak_tflops(precision) if gpu else None
    if gpu is None or peak is None or tflops is None:
        return None
    full, causal = tflops.full / peak, tflops.causal / peak
    return Mfu(divisor=f"{gpu.name} {precision} dense", peak_tflops=peak, full=full, causal=causal)


def _convention(tflops: float | None, tokens: float | None, conditions: Setting) -> str | None:
    if tflops is None or tokens is None or conditions.model is None or not conditions.seq_length:
        return None
    match = identify(tflops, tokens, conditions.model, conditions.seq_length)
    return match.convention if match else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _entry(problem: Problem) -> ProblemEntry:
    detail = f"{problem.source}: {problem.detail}" if problem.source else problem.detail
    return ProblemEntry(kind=problem.kind, line=problem.line, detail=detail, host=problem.host, rank=problem.rank)
