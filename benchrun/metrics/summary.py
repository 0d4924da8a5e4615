"""What a log tells, with what the caller adds: the document that ``benchrun parse --json`` prints."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from benchrun import hardware
from benchrun.metrics.convention import identify
from benchrun.metrics.flops import flops_per_token
from benchrun.metrics.known import Known, known
from benchrun.metrics.rows import Measured, measured
from benchrun.metrics.statistics import Floats, Interval, Spread, confidence_interval, spread, warmup_rows
from benchrun.metrics.steadiness import Steadiness, steadiness
from benchrun.metrics.telemetry import Telemetry
from benchrun.model import Frozen
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.records import Log, Problem

COARSE_S = 10.0
"""A row shorter than this, by a clock of whole seconds, is more than 5 % uncertain: only the mean over many is good."""


ENOUGH_ROWS = 20_000
"""Of a longer run the last so many rows say how steady and how sure it is; its spread is that of all."""


class MeanMedian(Frozen):
    """The two middles of one quantity over the window."""

    mean: float | None
    median: float | None


class ProblemEntry(Frozen):
    """One problem found in the log."""

    kind: str
    line: int | None
    detail: str
    host: str | None = None
    rank: int | None = None


class Window(Frozen):
    """The rows that the statistics cover."""

    first_step: int
    last_step: int
    rows: int
    """Without those that are impossible or have no time."""


class OtherWindows(Frozen):
    """What the mean step time, in s, would be by the windows that others use. None where the log has no such rows."""

    last_10_rows: float | None
    """Of many scripts."""
    steps_35_to_44: float | None
    """NVIDIA's DGX Cloud Benchmarking Recipes, whose steps count from 0."""


NOTHING = MeanMedian(mean=None, median=None)
NO_WINDOWS = OtherWindows(last_10_rows=None, steps_35_to_44=None)


class Conventions(Frozen):
    """One quantity under both FLOPs conventions."""

    full: float
    causal: float


class Mfu(Frozen):
    """Model FLOPs utilisation: fractions of a named peak, not percent."""

    divisor: str
    """Whose peak divides, e.g. ``H100 fp8 dense``."""
    peak_tflops: float
    full: float
    causal: float


class Layout(Frozen):
    """How the model was split."""

    tp: int | None
    pp: int | None
    cp: int | None
    vp: int | None
    ep: int | None


class Summary(Frozen):
    """A log in numbers. What the log does not hold is null."""

    schema_version: Literal[1] = 1
    file: str
    framework: str
    segments: int
    first_step: int | None
    last_step: int | None
    planned_steps: int | None
    num_steps: int
    """Distinct step rows of the file."""
    complete: bool
    """The last planned step was seen."""
    warmup_rows_dropped: int
    step_time_s: Spread | None
    tokens_per_s_per_gpu: MeanMedian
    tflops_per_gpu_reported: MeanMedian
    seq_length: int | None
    global_batch_size: int | None
    num_gpus: int | None
    problems: tuple[ProblemEntry, ...]
    window: Window | None
    step_time_interval_s: Interval | None
    """Where the true median lies, with 95 % confidence."""
    steadiness: Steadiness | None
    other_windows: OtherWindows
    tflops_per_gpu: Conventions | None
    """Our own count, from the median tokens/s."""
    reported_convention: str | None
    """How the framework counted its FLOPs, found from its own TFLOPS and tokens/s."""
    mfu: tuple[Mfu, ...]
    """Against the peak of the run's precision first, then of BF16; empty for a GPU without a listed peak."""
    first_loss: float | None
    final_loss: float | None
    run_time_s: float | None
    """Of the whole training, where the framework prints it."""
    framework_version: str | None
    micro_batch_size: int | None
    gpu: str | None
    precision: str | None
    layout: Layout
    model: dict[str, Any] | None
    """The dimensions, where the log states them all."""
    telemetry: Telemetry | None = None
    """What the GPUs did in the window, where the log lies in a run directory that holds it."""


FASTER_THAN_LISTED = frozenset({"nvfp4"})
"""Precisions that may exceed every listed peak: no speed of theirs can be called impossible."""


def summarise(log: Log, *, warmup: int | None = None, given: Known | None = None) -> Summary:
    """Reduce ``log``; ``warmup`` rows are dropped (the default rule where None). The log wins over ``given``.

    A rate above the GPU's peak is impossible: it becomes a problem and gives no number.
    """
    conditions = known(log, given or Known())
    values = measured(log, conditions)
    count = len(values.rows)
    dropped = warmup_rows(count) if warmup is None else min(warmup, count)
    inside = np.arange(count) >= dropped
    inside &= ~values.impossible
    timed = inside & ~np.isnan(values.step_time_s)
    step_time, interval, even, notes = _times(log, values, timed)
    tokens = _middles(values.tokens_per_s_per_gpu[inside], values.interval[inside])
    if log.only_average or _coarse(log, values, timed):
        tokens = MeanMedian(mean=tokens.mean, median=_mean_rate(values, timed, tokens))
    reported = _middles(values.tflops_per_gpu[inside], values.interval[inside])
    tflops = _tflops(tokens.median, conditions)
    mfu = _mfu(conditions, tflops)
    convention = _convention(reported.median, tokens.median, conditions)
    impossible = bool(mfu) and mfu[0].causal > 1 and conditions.precision not in FASTER_THAN_LISTED
    if impossible:
        detail = f"{mfu[0].causal:.2f} of the peak of {mfu[0].divisor}: the steps cannot have been this fast"
        notes.append(Problem("impossible_rate", None, detail))
        step_time, interval, even, tokens, tflops, mfu = None, None, None, NOTHING, None, ()
    columns = values.rows.columns
    losses = np.asarray(columns.loss)
    losses = losses[losses != NO_VALUE]
    return Summary(
        file=log.file,
        framework=log.framework,
        framework_version=log.facts.framework_version,
        segments=log.segments,
        first_step=columns.step[0] if count else None,
        last_step=columns.step[-1] if count else None,
        planned_steps=log.planned_steps,
        num_steps=count,
        complete=log.complete(log.planned_steps),
        warmup_rows_dropped=dropped,
        window=None if impossible else _window(values, timed if timed.any() else inside),
        step_time_s=step_time,
        step_time_interval_s=interval,
        steadiness=even,
        other_windows=NO_WINDOWS if impossible else _other_windows(values),
        tokens_per_s_per_gpu=tokens,
        tflops_per_gpu_reported=reported,
        reported_convention=convention,
        tflops_per_gpu=tflops,
        mfu=mfu,
        first_loss=_finite(losses[0]) if len(losses) else None,
        final_loss=_finite(losses[-1]) if len(losses) else None,
        run_time_s=log.facts.run_time_s,
        seq_length=conditions.seq_length,
        global_batch_size=conditions.global_batch_size,
        micro_batch_size=log.facts.micro_batch_size,
        num_gpus=conditions.num_gpus,
        gpu=conditions.gpu,
        precision=conditions.precision,
        layout=Layout(**{name: getattr(log.facts, name) for name in Layout.model_fields}),
        model=conditions.model.model_dump(exclude_defaults=True) if conditions.model else None,
        problems=tuple(_entry(problem) for problem in (*log.problems, *values.problems(), *notes)),
    )


def _times(
    log: Log, values: Measured, timed: np.ndarray
) -> tuple[Spread | None, Interval | None, Steadiness | None, list[Problem]]:
    """Spread, confidence and steadiness of the step time, and what makes them worth less."""
    times, weights = values.step_time_s[timed], values.interval[timed]
    if not len(times):
        return None, None, None, []
    found = spread(times, weights)
    if log.only_average:
        detail = f"only the mean over the whole run is known ({found.mean:.4g} s): start-up and evaluation are in it"
        return found, None, None, [Problem("only_average", None, detail)]
    if _coarse(log, values, timed):
        detail = "the log's clock has whole seconds, so the mean stands for the median"
        mean = found.model_copy(update={"median": found.mean})
        return mean, None, None, [Problem("coarse_clock", None, detail)]
    steps, last = np.asarray(values.rows.columns.step)[timed][-ENOUGH_ROWS:], times[-ENOUGH_ROWS:]
    # Differences of whole seconds jump by one; their means over a few rows do not.
    smooth = last[: len(last) // 5 * 5].reshape(-1, 5).mean(axis=1) if log.whole_seconds else last
    return found, confidence_interval(smooth), steadiness(last, steps=steps.tolist()), []


def _coarse(log: Log, values: Measured, timed: np.ndarray) -> bool:
    spans = values.step_time_s[timed] * values.interval[timed]
    return log.whole_seconds and len(spans) > 0 and float(np.median(spans)) < COARSE_S


def _mean_rate(values: Measured, timed: np.ndarray, tokens: MeanMedian) -> float | None:
    """Tokens over time, where single rows are too uncertain for a median."""
    times, rates = values.step_time_s[timed], values.tokens_per_s_per_gpu[timed]
    usable = ~np.isnan(rates)
    if not usable.any():
        return tokens.median
    spans = times[usable] * values.interval[timed][usable]
    return float(np.sum(rates[usable] * spans) / np.sum(spans))


def _window(values: Measured, rows: np.ndarray) -> Window | None:
    steps = np.asarray(values.rows.columns.step)[rows]
    return Window(first_step=int(steps[0]), last_step=int(steps[-1]), rows=len(steps)) if len(steps) else None


def _other_windows(values: Measured) -> OtherWindows:
    steps, times = np.asarray(values.rows.columns.step), values.step_time_s
    inside = (steps >= 35) & (steps <= 44)
    return OtherWindows(
        last_10_rows=_mean(times[-10:]) if len(times) >= 10 else None,
        steps_35_to_44=_mean(times[inside]) if inside.any() and steps[-1] >= 44 else None,
    )


def _mean(times: Floats) -> float | None:
    usable = times[~np.isnan(times)]
    return float(usable.mean()) if len(usable) else None


def _middles(values: Floats, weights: np.ndarray) -> MeanMedian:
    usable = ~np.isnan(values)
    found = spread(values[usable], weights[usable]) if usable.any() else None
    return MeanMedian(mean=found.mean if found else None, median=found.median if found else None)


def _tflops(tokens: float | None, conditions: Known) -> Conventions | None:
    if tokens is None or conditions.model is None or not conditions.seq_length:
        return None
    flops = flops_per_token(conditions.model, conditions.seq_length, task=conditions.task)
    return Conventions(full=tokens * flops.full / 1e12, causal=tokens * flops.causal / 1e12)


def _mfu(conditions: Known, tflops: Conventions | None) -> tuple[Mfu, ...]:
    gpu = hardware.gpu(conditions.gpu) if conditions.gpu else None
    if gpu is None or tflops is None:
        return ()
    peaks = {name: gpu.peak_tflops(name) for name in dict.fromkeys((conditions.precision or "bf16", "bf16"))}
    return tuple(
        Mfu(
            divisor=f"{gpu.name} {name} dense",
            peak_tflops=peak,
            full=tflops.full / peak,
            causal=tflops.causal / peak,
        )
        for name, peak in peaks.items()
        if peak
    )


def _convention(tflops: float | None, tokens: float | None, conditions: Known) -> str | None:
    if tflops is None or tokens is None or conditions.model is None or not conditions.seq_length:
        return None
    match = identify(tflops, tokens, conditions.model, conditions.seq_length)
    return match.convention if match else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _entry(problem: Problem) -> ProblemEntry:
    detail = f"{problem.source}: {problem.detail}" if problem.source else problem.detail
    return ProblemEntry(kind=problem.kind, line=problem.line, detail=detail, host=problem.host, rank=problem.rank)
