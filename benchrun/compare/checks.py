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
    low, middle, high = speeds[0]
    window = metrics[0].window
    # A single step does not predict the next.
    unsure = window is not None and window.rows == 1 and window.first_step == window.last_step and high < math.inf
    if len(speeds) > 1:  # of repeats the range counts, of a single run the confidence interval of its median
        middles = [speed[1] for speed in speeds]
        low, middle, high, unsure = min(middles), statistics.median(middles), max(middles), False
    if any(run.only_average for run in metrics):
        high = math.inf  # however often it is repeated
    band = (1 - best.tolerance_low, 1 + best.tolerance_high)
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
    speed has no upper bound. A named result has no spread.
    """
    value, time, interval = measured_in(run, reference, own), run.step_time_s, run.step_time_interval_s
    assert value  # `countable` left other references out
    ratio = reference.value / value if reference.better == "lower" else value / reference.value
    if time is None:
        return ratio, ratio, ratio
    centre = time.mean if run.whole_seconds else time.median
    middle = ratio * time.median / centre
    if run.only_average:
        return middle, middle, math.inf
    # With too few rows for an interval: all that was seen.
    fast, slow = (interval.low, interval.high) if interval else (time.p5, time.p95)
    return middle * centre / slow, middle, middle * centre / fast


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
    return Check(
        metric="final_loss",
        value=statistics.median(losses),
        low=min(losses),
        high=max(losses),
        reference=best,
        ratio=statistics.median(ratios),
        band=band,
        differs=(),
        verdict="pass" if all(band[0] <= ratio <= band[1] for ratio in ratios) else "invalid_run",
    )
