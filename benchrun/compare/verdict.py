"""Metrics + references -> verdict. Sanity before performance: a fast wrong run is invalid."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from benchrun.compare.choice import COUNTED, choose, usable
from benchrun.compare.conditions import LOSS, SOFT, Conditions, Difference, differences, hard_differences
from benchrun.compare.references import Metric, Reference, matching

if TYPE_CHECKING:
    from benchrun.metrics.measure import Metrics
from benchrun.model import Frozen

Name = Literal["pass", "slow", "faster_than_expected", "inconclusive", "not_comparable", "no_reference", "invalid_run"]
FATAL_PROBLEMS = frozenset({"missing_loss", "missing_steps", "other_conditions"})
"""Beside those that are fatal in any log."""
BEYOND_PEAK = "impossible_rate"


class Check(Frozen):
    """One number held against one reference entry."""

    metric: Metric
    value: float
    """Ours: the median over the window, over the repeats."""
    low: float
    high: float | None
    """Between these ours lies: over the repeats, or by the spread of one run's steps. None: nobody knows how high."""
    reference: Reference
    ratio: float
    """Speed relative to the reference (above 1 is faster); for a loss ours / theirs."""
    band: tuple[float, float]
    """Ratios that pass."""
    differs: tuple[Difference, ...]
    """Conditions that differ and are allowed to."""
    verdict: Name


class Verdict(Frozen):
    """The answer, the entry it rests on, and why."""

    schema_version: Literal[1] = 1
    verdict: Name
    reason: str
    """One sentence."""
    ending: str | None
    runs: int
    checks: tuple[Check, ...]
    differs: tuple[Difference, ...]
    """With ``not_comparable``: the keys that differ from the nearest reference."""
    nearest: Reference | None
    conditions: Conditions

    @property
    def exit_code(self) -> int:
        """0 pass; 1 slow; 4 whatever else: no number to act on, or one that needs a look first."""
        return {"pass": 0, "slow": 1}.get(self.verdict, 4)


def judge(
    ours: Conditions, metrics: Sequence[Metrics], references: Sequence[Reference], *, ending: str | None = None
) -> Verdict:
    """Judge one run, or the repeats of one. ``ending`` is how the job ended, where a job was launched."""
    broken = _broken(metrics, ending)
    if broken:
        return _verdict("invalid_run", broken, ours, metrics, ending)
    found = matching(ours, references)
    loss = _loss_check(ours, metrics, found)
    beyond = next((detail for run in metrics if (detail := _beyond_peak(run))), None)
    speed = None if beyond else _speed_check(ours, metrics, found)
    checks = tuple(check for check in (speed, loss) if check)
    if loss and loss.verdict != "pass":
        reason = f"the final loss is {loss.value:.4f}, not {loss.reference.value:.4f}: this run computed something else"
        return _verdict("invalid_run", reason, ours, metrics, ending, checks)
    if beyond:
        return _incredible(beyond, ours, metrics, references, ending, checks)
    if speed:
        reason = _speed_reason(speed, len(metrics)) + _as_fast_as(speed, ours, metrics, found)
        return _verdict(speed.verdict, reason, ours, metrics, ending, checks)
    if loss:
        reason = f"the final loss agrees; nobody published a speed for {ours.recipe} on {ours.num_gpus} x {ours.gpu}"
        return _verdict("pass", reason, ours, metrics, ending, checks)
    return _without_reference(ours, metrics, references, ending)


def _broken(metrics: Sequence[Metrics], ending: str | None) -> str | None:
    """Why these runs give no number at all."""
    if ending not in (None, "completed"):
        return f"the job ended as {ending}"
    for run in metrics:
        fatal = run.fatal or next((problem for problem in run.problems if problem.kind in FATAL_PROBLEMS), None)
        if run.num_steps == 0:
            return "the log holds no step"
        if run.complete is False:
            # A row may stand for several steps, and a log may begin after a checkpoint.
            made = max(run.num_steps, run.window.last_step if run.window else 0)
            return f"only {made} steps of {run.planned_steps} were made"
        if fatal:
            return f"{fatal.kind}: {fatal.detail}"
        if run.warmup_rows_dropped == run.num_steps:
            return f"all {run.num_steps} rows were dropped as warm-up"
        if run.step_time_s is None and not _beyond_peak(run):
            return "the log holds no step time, and not what a rate needs to become one"
    return None if metrics else "nothing was measured"


def _beyond_peak(run: Metrics) -> str | None:
    """What says that a run was faster than its GPU can be; such a run has no step time."""
    return next((problem.detail for problem in run.problems if problem.kind == BEYOND_PEAK), None)


def _incredible(
    beyond: str,
    ours: Conditions,
    metrics: Sequence[Metrics],
    references: Sequence[Reference],
    ending: str | None,
    checks: tuple[Check, ...],
) -> Verdict:
    """Faster than the GPU: no number, but where there is a reference more can be said of what may be wrong."""
    reason = f"beyond the GPU's peak, so not to be believed: {beyond}"
    if reference := choose(matching(ours, references), ours):
        return _verdict("faster_than_expected", reason, ours, metrics, ending, checks, nearest=reference)
    other = _without_reference(ours, metrics, references, ending)
    if other.differs:
        # A condition that is not what was run, a sequence twice as long, makes any speed impossible.
        return other.model_copy(update={"reason": f"{other.reason}; {reason}", "checks": checks})
    return _verdict("invalid_run", f"{BEYOND_PEAK}: {beyond}", ours, metrics, ending, checks)


def _speed_check(ours: Conditions, metrics: Sequence[Metrics], found: Sequence[Reference]) -> Check | None:
    best = choose(_countable(metrics, found), ours)
    return _against(best, ours, metrics) if best else None


def _countable(metrics: Sequence[Metrics], found: Sequence[Reference]) -> list[Reference]:
    # Without our own count of FLOPs nothing can be said to a TFLOPS or an MFU.
    counted = all(run.tflops_per_gpu is not None for run in metrics)
    return [entry for entry in found if usable(entry) and (counted or entry.metric not in COUNTED)]


def _against(best: Reference, ours: Conditions, metrics: Sequence[Metrics]) -> Check:
    speeds = [_speed(run, best, ours) for run in metrics]
    middle = statistics.median([speed[1] for speed in speeds])
    # Repeats speak for themselves; a single run's median is as sure as its steps are steady.
    low = min(s[1] for s in speeds) if len(speeds) > 1 else speeds[0][0]
    high = max(s[1] for s in speeds) if len(speeds) > 1 else speeds[0][2]
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
        differs=differences(best.key, ours, SOFT),
        verdict="inconclusive" if _one_step(metrics) else _in_band(low, middle, high, band),
    )


def _one_step(metrics: Sequence[Metrics]) -> bool:
    """Whether all that was timed is one step, which says nothing of the next."""
    if len(metrics) > 1 or metrics[0].only_average or (window := metrics[0].window) is None:
        return False
    return window.rows == 1 and window.first_step == window.last_step


def _as_fast_as(speed: Check, ours: Conditions, metrics: Sequence[Metrics], found: Sequence[Reference]) -> str:
    """Where a slow run is as fast as another release, or variant, was published to be: which one."""
    if speed.verdict != "slow":
        return ""
    same = choose([e for e in _countable(metrics, found) if _against(e, ours, metrics).verdict == "pass"], ours)
    if same is None:
        return ""
    by = ", ".join(filter(None, (same.key.framework_version or same.key.image, same.key.variant)))
    published = f"published with {by}" if by else f"published in {same.source.date}"
    return f"; it reaches what {same.source.who} {published} (--reference {same.id})"


def _in_band(low: float, middle: float, high: float, band: tuple[float, float]) -> Name:
    if any(low < edge < high for edge in band):
        return "inconclusive"
    if middle < band[0]:
        return "slow"
    return "faster_than_expected" if middle > band[1] else "pass"


def _speed(run: Metrics, reference: Reference, ours: Conditions) -> tuple[float, float, float]:
    """Low, middle and high of a run's speed relative to the reference.

    The bounds are those of the median with 95 % confidence. A run of which only the mean is known, start-up included,
    was at least so fast, and nobody knows how much faster.
    """
    assert run.step_time_s is not None  # _broken has seen to that
    time = run.step_time_s.mean if run.whole_seconds else run.step_time_s.median
    middle = _at_median(run, reference, ours) * run.step_time_s.median / time
    if run.only_average:
        return middle, middle, math.inf
    interval = run.step_time_interval_s
    if interval is None:  # too few rows: all that was seen
        return middle * time / run.step_time_s.p95, middle, middle * time / run.step_time_s.p5
    return middle * time / interval.high, middle, middle * time / interval.low


def _at_median(run: Metrics, reference: Reference, ours: Conditions) -> float:
    """Our speed, taken from the median step time, relative to the reference's, in its own metric and convention."""
    assert run.step_time_s is not None
    if reference.metric == "step_time_s":
        return reference.value / run.step_time_s.median
    if reference.metric == "tokens_per_s_per_gpu":
        return (run.tokens_per_s_per_gpu.median or 0.0) / reference.value
    if reference.metric == "samples_per_s":
        return (ours.gbs or 0) / run.step_time_s.median / reference.value
    counted: float = getattr(run.tflops_per_gpu, reference.convention or "")
    share = (reference.peak_tflops or 0.0) / 100 if reference.metric == "mfu_percent" else 1.0
    return counted / (reference.value * share)


def _loss_check(ours: Conditions, metrics: Sequence[Metrics], found: Sequence[Reference]) -> Check | None:
    if ours.seed is None or ours.lr is None:
        return None  # a bare log: another seed gives another loss
    entries = [e for e in found if e.metric == "final_loss" and not differences(e.key, ours, (*LOSS, *SOFT))]
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


def _without_reference(
    ours: Conditions, metrics: Sequence[Metrics], references: Sequence[Reference], ending: str | None
) -> Verdict:
    same = [e for e in references if e.key.recipe == ours.recipe and e.key.gpu == ours.gpu and usable(e)]
    if not same:
        reason = f"no published number for {ours.recipe} on {ours.gpu}"
        return _verdict("no_reference", reason, ours, metrics, ending)
    # Of equally near ones the one at our scale: a person can change a batch more easily than a cluster.
    nearest = min(
        same, key=lambda e: (len(hard_differences(e.key, ours)), e.key.num_gpus != ours.num_gpus, bool(e.flags))
    )
    differs = hard_differences(nearest.key, ours)
    named = [f"{d.key}: reference {_said(d.theirs)}, this run {_said(d.ours)}" for d in differs]
    # Nothing differs, and still it was not chosen: it is a TFLOPS or an MFU, and ours cannot be counted.
    reason = "; ".join(named) or "the reference counts FLOPs, and those of this run are not known"
    return _verdict("not_comparable", reason, ours, metrics, ending, (), differs, nearest)


def _remarks(metrics: Sequence[Metrics]) -> str:
    """A throttled GPU, a loss that rose, a drift: the number stays comparable, and the reader is told."""
    throttled = [fault for run in metrics if run.telemetry and (fault := run.telemetry.fault)]
    rose = [said for run in metrics if (said := run.loss_rose)]
    drifted = [said for run in metrics if (said := run.drifted)]
    runs = len(metrics)
    return "".join(
        f"; {found[0]}" + (f", in {len(found)} of {runs} runs" if runs > 1 else "")
        for found in (throttled, rose, drifted)
        if found
    )


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def _speed_reason(check: Check, runs: int) -> str:
    percent = 100 * (check.ratio - 1)
    says = f"{abs(percent):.1f} % {'faster' if percent >= 0 else 'slower'} than the reference"
    if check.verdict == "inconclusive":
        if check.high is None:
            return f"{says}, or better: only the mean over the whole run is known, with start-up in it"
        if check.low == check.high:
            return f"{says}, but a single step was timed: run it with more"
        if runs > 1:  # more of them would lie as far apart
            return f"{says}, but the {runs} runs lie on both sides of the edge of what passes: why do they differ?"
        return f"{says}, but the spread reaches over the edge of what passes: run it with --repeats 3"
    limit = f"up to {100 * (1 - check.band[0]):.0f} % slower or {100 * (check.band[1] - 1):.0f} % faster passes"
    return f"{says} ({limit})"


def _verdict(
    name: Name,
    reason: str,
    ours: Conditions,
    metrics: Sequence[Metrics],
    ending: str | None,
    checks: tuple[Check, ...] = (),
    differs: tuple[Difference, ...] = (),
    nearest: Reference | None = None,
) -> Verdict:
    return Verdict(
        verdict=name,
        reason=reason + _remarks(metrics),
        ending=ending,
        runs=len(metrics),
        checks=checks,
        differs=differs,
        nearest=nearest,
        conditions=ours,
    )
