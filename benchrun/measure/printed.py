"""The one check of what a log prints against what is computed: tokens/s/GPU, samples/s,
TFLOPS and MFU.

A printed rate that differs says that the log is of another batch, sequence length,
number of GPUs or model than those that the computation takes, wherever these come from.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.logs.records import (
    BATCH_TOKENS,
    CHECKS,
    CONSUMED_TOKENS,
    LABEL_TOKENS,
    SOME_TOKENS_PER_S,
    Log,
    Problem,
)
from benchrun.model import ModelShape

from .convention import CONVENTIONS, PRINTED
from .rows import CompletedRows, quantity_of
from .setting import Setting
from .statistics import Floats

AGREES = 0.02
"""Relative distance that a printed rate may have from the computed one, or from one of
the framework's conventions.
"""
UNKNOWN = 0.3
"""Relative distance if it is not known how the framework counts."""
SLOWER, FASTER = 1.25, 0.8
"""Seconds a step by the dates of the lines, over the printed ones, beyond which both
cannot be true: loading of data, which some timers leave out, takes less.
"""
STILL = 0.05
"""Share below which the dates are those of a copy that was written at once."""
COUNTERS = (1.0, 60.0)
"""Seconds from each step or row to the next one of dates that only count."""
FEWEST = 4
"""Rows whose dates tell."""
FEWEST_RISES = 8
"""Distances between rows, at least, by which a count rises."""
MOST_DIGITS = 16
FINEST = 4
"""Decimals of a printed number that are told apart."""
ADAPTERS = ("lora_full", "lora_causal")
"""Conventions that count the training of adapters alone."""


class _Counts(NamedTuple):
    """FLOPs per token by which a printed TFLOPS may be counted, and how far it may be
    from them.
    """

    values: tuple[float, ...]
    tolerance: float

    def explain(self, implied: float, rounding: float) -> bool:
        """Whether ``implied`` FLOPs per token are one of the counts."""
        return any(abs(implied / count - 1) <= self.tolerance + rounding for count in self.values)


def contradictory_rates(
    log: Log, setting: Setting, inside: CompletedRows, models: Iterable[ModelShape | None]
) -> Iterator[Problem]:
    """The printed rates of the rows ``inside`` that contradict the computed ones;
    ``models`` may be trained.
    """
    for detail in log.contradictions:
        yield Problem("contradictory_rate", None, detail)
    yield from _other_batch(log, setting)
    checks = {name: quantity_of(log, name, inside.step) for name in CHECKS}
    length = (setting.fixed_length and setting.seq_length) or np.nan
    rate, tokens, some = (
        inside.tokens_per_s_per_gpu,
        inside.batch * length,
        checks[SOME_TOKENS_PER_S],
    )
    of_all = rate * (setting.num_gpus or np.nan)
    for unit, printed, computed in (
        ("tokens/s/GPU", inside.printed_tokens, rate),
        ("tokens/s", some, np.where(some < np.sqrt(rate * of_all), rate, of_all)),
        ("samples/s", inside.printed_samples, inside.batch / inside.step_time_s),
        ("tokens a step", checks[BATCH_TOKENS], tokens),
        ("labels a step", checks[LABEL_TOKENS], np.minimum(checks[LABEL_TOKENS], tokens)),
    ):
        yield from _other_rate(unit, printed, computed, _half_digit(inside.step_time_s))
    # Beside the rate of a GPU, another one that is not below it is that of all.
    printed = np.where(np.isnan(of_all) & (some >= rate), some, of_all) * inside.step_time_s
    tokens, samples = np.where(np.isnan(tokens), printed, tokens), inside.batch
    for made in (inside.printed_samples * inside.step_time_s, tokens / length):
        samples = np.where(np.isnan(samples), made, samples)
    yield from _other_count("samples", inside.consumed_samples, samples, inside.step)
    yield from _other_count("tokens", checks[CONSUMED_TOKENS], tokens, inside.step)
    counts = _counts(log, setting, models)
    if counts.values:
        yield from _other_tflops(inside, counts)
        yield from _other_mfu(log, setting, inside, counts)


def _other_batch(log: Log, setting: Setting) -> Iterator[Problem]:
    """A problem if the summary of the run counts other samples than a batch a step."""
    batches = [batch for batch in (setting.gbs, log.facts.gbs) if batch]
    if not log.counted or not batches:
        return
    samples, missing, error = log.counted
    low, high = min(batches) * (1 - missing), max(batches)
    slack = AGREES * high + error
    if not low - slack <= samples <= high + slack:
        detail = f"the summary counts {samples:.4g} samples a step, the batch has {batches[0]}"
        yield Problem("contradictory_rate", None, detail)


def contradictory_dates(log: Log, inside: CompletedRows, step_s: float | None) -> Iterator[Problem]:
    """A problem if the program's own dates contradict the printed time of nearly every
    row, which is ``step_s`` seconds.

    Three of four rows must do so: evaluations, checkpoints and stalls stand between few.
    """
    undated = (np.nan, np.nan)
    bounds = np.array([log.dated_s.get(step, undated) for step in inside.step.tolist()])
    dated = ~np.isnan(bounds).any(axis=-1)
    if not step_s or log.only_average or dated.sum() < FEWEST:
        return
    times = bounds[dated].mean(axis=1)
    middle = float(np.median(times))
    least, most = _most_rows(bounds, dated, middle)
    contradicts = least > SLOWER * step_s or most < FASTER * step_s
    if not contradicts or middle < STILL * step_s or _count_only(times, inside.step):
        return
    detail = f"the log prints {step_s:.4g} s a step, the dates of its lines give {middle:.4g} s"
    yield Problem("contradictory_dates", None, detail)


def _most_rows(bounds: Floats, dated: NDArray[np.bool_], middle: float) -> tuple[float, float]:
    """Least and most seconds a step of three of four ``dated`` rows.

    Dates of whole seconds may each be a second off. Where a second is little beside a
    step and as many rows agree with the median to it, all of a stretch of them is a
    second off, not each.
    """
    least, most = np.quantile(bounds[dated, 0], 0.25), np.quantile(bounds[dated, 1], 0.75)
    times, rounding = bounds.mean(axis=1), np.ptp(bounds, axis=1) / 2
    alike = (np.abs(times - middle) <= 1.001 * rounding) & (rounding <= (SLOWER - 1) * middle)
    if alike.sum() >= 0.75 * dated.sum():
        stretches = alike[0] + np.count_nonzero(alike[1:] & ~alike[:-1])
        error = stretches * rounding[alike].max() / alike.sum()
        mean = times[alike].mean()
        least, most = max(least, mean - error), min(most, mean + error)
    return float(least), float(most)


def _count_only(times: Floats, step: NDArray[np.int64]) -> bool:
    """Whether seconds a step are those of dates that rise by one with each step or row."""
    between = (times[0], times[0] * np.median(np.diff(step)))
    return bool(np.ptp(times) < 1e-6 and not set(np.round(between, 6)).isdisjoint(COUNTERS))


def _other_rate(unit: str, printed: Floats, computed: Floats, rounding: float) -> Iterator[Problem]:
    """A problem if the median of printed over computed rates is not 1. ``rounding``:
    relative, of the step time.
    """
    both = ~np.isnan(printed) & ~np.isnan(computed)
    if not both.any():
        return
    ratio = float(np.median(printed[both] / computed[both]))
    if abs(ratio - 1) <= AGREES + rounding + _half_digit(printed[both]):
        return
    own, theirs = float(np.median(computed[both])), float(np.median(printed[both]))
    detail = f"the log prints {theirs:.4g} {unit}, its step time and the batch, sequence and GPUs give {own:.4g}"
    yield Problem("contradictory_rate", None, detail)


def _other_count(
    unit: str, counted: Floats, a_step: Floats, step: NDArray[np.int64]
) -> Iterator[Problem]:
    """A problem if what all steps so far consumed does not rise by as much ``a_step``,
    which is the batch, or follows from a printed rate.

    Rows that are some apart tell it: counters with few digits stand still between two.
    """
    known = ~np.isnan(counted) & ~np.isnan(a_step)
    apart = max(1, known.sum() // FEWEST_RISES)
    counted, step = counted[known], step[known]
    if len(step) <= apart:
        return
    steps = step[apart:] - step[:-apart]
    rise = float(np.median((counted[apart:] - counted[:-apart]) / steps))
    zeros = sum(counted % 10.0**digits == 0 for digits in range(1, MOST_DIGITS))
    rounding = 10.0 ** np.median(zeros) / np.median(steps)
    expected = float(np.median(a_step[known]))
    # A number that stands still or counts the steps is none of samples.
    if rise > 1 and abs(rise - expected) > AGREES * expected + rounding:
        detail = (
            f"{rise:.6g} {unit} a step are consumed, the batch or the rate gives {expected:.6g}"
        )
        yield Problem("contradictory_rate", None, detail)


def _counts(log: Log, setting: Setting, models: Iterable[ModelShape | None]) -> _Counts:
    """Every way to count; none if model or sequence length are not known."""
    known = {model for model in models if model is not None}
    if not setting.seq_length or not setting.fixed_length or setting.unknown_options:
        return _Counts((), AGREES)
    names = (
        *(log.printed_conventions or ("full", "causal")),
        *(ADAPTERS if setting.task == "lora" else ()),
    )
    ways = [(CONVENTIONS | PRINTED)[name] for name in names]
    counts = tuple(way(model, setting.seq_length) for model in known for way in ways)
    return _Counts(counts, AGREES if log.printed_conventions else UNKNOWN)


def _other_tflops(inside: CompletedRows, counts: _Counts) -> Iterator[Problem]:
    """A printed TFLOPS that no convention explains."""
    implied = inside.tflops_per_gpu * 1e12 / inside.tokens_per_s_per_gpu
    if np.isnan(implied).all():
        return
    rounding = _half_digit(inside.tflops_per_gpu) + _half_digit(inside.step_time_s)
    middle = float(np.nanmedian(implied))
    if counts.explain(middle, rounding):
        return
    printed = float(np.nanmedian(inside.tflops_per_gpu))
    low, high = printed * min(counts.values) / middle, printed * max(counts.values) / middle
    detail = f"the log prints {printed:.4g} TFLOPS, the model gives {low:.4g} to {high:.4g}"
    yield Problem(
        "unexplained_tflops",
        None,
        f"{detail}: the run trained another model, sequence length or batch",
    )


def _other_mfu(
    log: Log, setting: Setting, inside: CompletedRows, counts: _Counts
) -> Iterator[Problem]:
    """A printed MFU that no convention explains, over any peak of the GPU or that of
    the framework's own choice.
    """
    implied = inside.mfu / inside.tokens_per_s_per_gpu
    precisions = {setting.precision or "bf16", "bf16"}
    listed = list(filter(None, map(setting.peak_tflops, precisions)))
    if not listed or np.isnan(implied).all() or np.nanmedian(inside.mfu) > 1:
        return
    if log.fallback_peak_tflops:
        listed.append(log.fallback_peak_tflops)
    middle, rounding = (
        float(np.nanmedian(implied)),
        _half_digit(inside.mfu * 100) + _half_digit(inside.step_time_s),
    )
    if any(counts.explain(middle * peak * 1e12, rounding) for peak in listed):
        return
    printed = 100 * float(np.nanmedian(inside.mfu))
    yield Problem(
        "unexplained_mfu",
        None,
        f"the log prints an MFU of {printed:.4g} %, which no way to count explains",
    )


def _half_digit(values: Floats) -> float:
    """Half of the last printed digit, relative to the median; of numbers that have one
    decimal, 0.05.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return 0.0
    scales = 10.0 ** np.arange(FINEST + 1)
    exact = []
    for scale in scales:
        exact.append(bool(np.allclose(known * scale, np.rint(known * scale), rtol=1e-9, atol=1e-6)))
    decimals = exact.index(True) if any(exact) else FINEST
    return float(0.5 / scales[decimals] / np.median(known))
