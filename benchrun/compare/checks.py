"""A measured number compared with a reference: ratio, bounds and whether it passes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from benchrun.compare.choice import usable
from benchrun.compare.conditions import LOSS, SOFT, Conditions, Difference, differences
from benchrun.compare.references import Reference
from benchrun.metrics.registry import METRICS, Basis
from benchrun.model import Frozen

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics

Name = Literal["pass", "slow", "faster_than_expected", "inconclusive", "not_comparable", "no_reference", "invalid_run"]


class Check(Frozen):
    """One number beside one reference entry."""

    metric: str
    value: float
    """Ours: the median over the window, over the repeats."""
    low: float
    high: float | None
    """Our value lies between these: over the repeats, or by the spread of one run's steps. None: no upper end."""
    reference: Reference
    ratio: float
    """Speed over the reference's speed (above 1 is faster); for a loss, the run's over the reference's."""
    band: tuple[float, float]
    """Ratios that pass."""
    differs: tuple[Difference, ...]
    """Conditions that differ and are allowed to."""
    verdict: Name


def measured_in(run: Metrics, reference: Reference, own: Conditions) -> float | None:
    """The run's value in the metric and convention of ``reference``; None where it has none."""
    return METRICS[reference.metric].read(run, Basis(reference.convention or "causal", reference.peak_tflops, own.gbs))


def countable(metrics: Sequence[Metrics], references: Sequence[Reference], own: Conditions) -> list[Reference]:
    """The usable references in whose metric every run has a value."""
    return [entry for entry in references if usable(entry) and all(measured_in(run, entry, own) for run in metrics)]


def speed_check(best: Reference, own: Conditions, metrics: Sequence[Metrics]) -> Check:
    """Our speed, over the repeats, relative to ``best``."""
    speeds = [_speed(run, best, own) for run in metrics]
    middle = statistics.median([speed[1] for speed in speeds])
    # Of repeats the range counts, of a single run the confidence interval of its median.
    low = min(s[1] for s in speeds) if len(speeds) > 1 else speeds[0][0]
    high = max(s[1] for s in speeds) if len(speeds) > 1 else speeds[0][2]
    if any(run.only_average for run in metrics):
        high = math.inf  # however often it is repeated
    band = (1 - best.tolerance_low, 1 + best.tolerance_high)
    window = metrics[0].window
    # A single step does not predict the next.
    one_step = len(metrics) == 1 and window is not None and window.rows == 1 and window.first_step == window.last_step
    unsure = one_step and not metrics[0].only_average
    return Check(
        metric=best.metric,
        value=best.value / middle if best.better == "lower" else best.value * middle,
        low=low,
        high=None if math.isinf(high) else high,
        reference=best,
        ratio=middle,
        band=band,
        differs=differences(best.key, own, ("recipe", *SOFT)),
        verdict="inconclusive" if unsure else _in_band(low, middle, high, band),
    )


def _in_band(low: float, middle: float, high: float, band: tuple[float, float]) -> Name:
    if any(low < edge < high for edge in band):
        return "inconclusive"
    if middle < band[0]:
        return "slow"
    return "faster_than_expected" if middle > band[1] else "pass"


def _speed(run: Metrics, reference: Reference, own: Conditions) -> tuple[float, float, float]:
    """Low, middle and high of a run's speed relative to the reference.

    The bounds are those of the median with 95 % confidence. Where only the mean is known, start-up included, the true
    speed has no upper bound.
    """
    value = measured_in(run, reference, own)
    assert value  # `countable` left other references out
    ratio = reference.value / value if reference.better == "lower" else value / reference.value
    if run.step_time_s is None:  # a result of the whole run, which has no spread
        return ratio, ratio, ratio
    time = run.step_time_s.mean if run.whole_seconds else run.step_time_s.median
    middle = ratio * run.step_time_s.median / time
    if run.only_average:
        return middle, middle, math.inf
    interval = run.step_time_interval_s
    if interval is None:  # too few rows: all that was seen
        return middle * time / run.step_time_s.p95, middle, middle * time / run.step_time_s.p5
    return middle * time / interval.high, middle, middle * time / interval.low


def loss_check(own: Conditions, metrics: Sequence[Metrics], references: Sequence[Reference]) -> Check | None:
    """Our final loss beside a known one; None where none is known."""
    if own.seed is None or own.lr is None:
        return None  # a bare log: another seed gives another loss
    entries = [e for e in references if e.metric == "final_loss" and not differences(e.key, own, (*LOSS, *SOFT))]
    losses = [run.final_loss for run in metrics if run.final_loss is not None]
    if not entries or not losses:
        return None
    best = max(entries, key=lambda entry: entry.source.date)
    ratios = [loss / best.value for loss in losses]
    band = (1 - best.tolerance_low, 1 + best.tolerance_high)
    agrees = all(band[0] <= ratio <= band[1] for ratio in ratios)
    return Check(
        metric="final_loss",
        value=statistics.median(losses),
        low=min(losses),
        high=max(losses),
        reference=best,
        ratio=statistics.median(ratios),
        band=band,
        differs=(),
        verdict="pass" if agrees else "invalid_run",
    )
