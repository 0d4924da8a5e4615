"""Comparison of a measured number with a reference, what makes it invalid (`broken`),
what limits it (`labels`).
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from benchrun.logs.kinds import kind_of
from benchrun.measure.metric import OURS, Basis
from benchrun.measure.model import Measurement, Metrics, ProblemEntry, Summary
from benchrun.measure.registry import METRICS
from benchrun.measure.statistics import MIN_INTERVAL_ROWS
from benchrun.model import Frozen

from .choice import usable
from .conditions import LOSS, MACHINE, SOFT, Conditions, Difference, differences
from .references import Reference
from .uneven import Label, slow_steps, too_uneven

Name = Literal[
    "pass",
    "slow",
    "faster_than_expected",
    "inconclusive",
    "not_comparable",
    "no_reference",
    "invalid_run",
    "as_expected",
    "slower_than_expected",
]

NOTED = ("infinite_norm", "zero_norm", "few_nan_losses", "truncated_file", "slow_network")
"""Kinds of problems that leave a run its speed, and whose words limit its verdict."""
LEARNED = {"final_loss": "loss", "final_reward": "reward"}
"""Metrics of what a run has learned, and their words: they show whether it computed the
right thing.
"""


class Check(Frozen):
    """One measured number compared with one reference."""

    metric: str
    value: float
    """Ours: the median over the window, over the repeats."""
    low: float
    high: float | None
    """Upper end of our value, over the repeats or by the spread of one run's steps;
    None: no upper end.
    """
    reference: Reference
    ratio: float
    """Speed over the reference's speed (above 1 is faster); for a loss, the run's over
    the reference's.
    """
    band: tuple[float, float | None]
    """Ratios that pass; the upper one is None if the source states a floor (more than
    ...).
    """
    differs: tuple[Difference, ...] = ()
    """Conditions that differ and are allowed to."""
    verdict: Name


def measured_in(run: Metrics, reference: Reference, own: Conditions) -> float | None:
    """The run's value in the metric and convention of ``reference``; None if it has
    none.
    """
    return METRICS[reference.metric].read(
        run, Basis(reference.convention or "causal", reference.peak_tflops, own.gbs)
    )


def countable(
    metrics: Sequence[Metrics], references: Sequence[Reference], own: Conditions
) -> list[Reference]:
    """The usable references in whose metric every run has a value."""
    chosen = []
    for entry in references:
        if usable(entry) and all(measured_in(run, entry, own) for run in metrics):
            chosen.append(entry)
    return chosen


def speed_check(best: Reference, own: Conditions, metrics: Sequence[Metrics]) -> Check:
    """Our speed, over the repeats, relative to ``best``."""
    speeds = [_speed(run, best, own) for run in metrics]
    low, middle, high = speeds[0]
    window = metrics[0].window
    # A single step does not predict the next.
    unsure = (
        window is not None
        and window.rows == 1
        and window.first_step == window.last_step
        and high < math.inf
    )
    if len(speeds) > 1:  # repeats count by their range, a single run by the interval of its median
        middles = [speed[1] for speed in speeds]
        low, middle, high, unsure = min(middles), statistics.median(middles), max(middles), False
    if any(run.only_average for run in metrics):
        high = math.inf  # however often it is repeated
    band = best.band
    verdict: Name = "inconclusive" if unsure else _even(_in_band(low, middle, high, band), metrics)
    if verdict == "slow" and "warned" in best.flags:
        verdict = "inconclusive"
    return Check(
        metric=best.metric,
        value=best.value / middle if best.better == "lower" else best.value * middle,
        low=low,
        high=None if math.isinf(high) else high,
        reference=best,
        ratio=middle,
        band=band,
        differs=differences(best.key, own, ("recipe", *SOFT, *MACHINE)),
        verdict=verdict,
    )


def _even(verdict: Name, metrics: Sequence[Metrics]) -> Name:
    """``verdict``, or none if slow steps, which the median hides, may undo a pass."""
    if verdict == "pass" and too_uneven(metrics):
        return "inconclusive"
    return verdict


def _in_band(low: float, middle: float, high: float, band: tuple[float, float | None]) -> Name:
    """The verdict on a relative speed; inconclusive if its bounds lie on both sides of
    a limit of ``band``.
    """
    slowest, fastest = band[0], math.inf if band[1] is None else band[1]
    if any(low < edge < high for edge in (slowest, fastest)):
        return "inconclusive"
    if middle < slowest:
        return "slow"
    if middle > fastest:
        return "faster_than_expected"
    return "pass"


def _speed(run: Metrics, reference: Reference, own: Conditions) -> tuple[float, float, float]:
    """Low, middle and high of a run's speed relative to the reference.

    The bounds are those of the median with 95 % confidence. Where only the mean is
    known, start-up included, the true speed has no upper bound. A named result has no
    spread.
    """
    value, time, interval = (
        measured_in(run, reference, own),
        run.step_time_s,
        run.step_time_interval_s,
    )
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


def loss_check(
    own: Conditions, metrics: Sequence[Metrics], references: Sequence[Reference]
) -> Check | None:
    """Compare the final loss, or the final reward of a post-training, with the newest
    known one; None without one.
    """
    if own.seed is None or own.lr is None:
        return None  # a bare log: another seed gives another loss
    entries = []
    for e in references:
        if e.metric in LEARNED and not differences(e.key, own, (*LOSS, *SOFT)):
            entries.append(e)
    best = max(entries, key=lambda entry: entry.source.date, default=None)
    reached = []
    for run in metrics:
        if best and (value := METRICS[best.metric].read(run, OURS)) is not None:
            reached.append(value)
    if best is None or not reached:
        return None
    ratios = [value / best.value for value in reached]
    band = (1 - best.tolerance_low, 1 + best.tolerance_high)
    return Check(
        metric=best.metric,
        value=statistics.median(reached),
        low=min(reached),
        high=max(reached),
        reference=best,
        ratio=statistics.median(ratios),
        band=band,
        verdict="pass" if all(band[0] <= ratio <= band[1] for ratio in ratios) else "invalid_run",
    )


def broken(metrics: Sequence[Metrics], ending: str | None) -> str | None:
    """Reason why these runs give no number; None if they do."""
    if ending not in (None, "completed"):
        cause = ""
        for run in metrics:
            if run.fatal and not cause:
                cause = f"; {run.fatal.kind}: {run.fatal.detail}"
        return f"the ending of the job is {ending}{cause}"
    reasons = (reason for run in metrics if (reason := _broken(run)))
    return next(reasons, None if metrics else "nothing was measured")


def broken_run(metrics: Metrics | None, ending: str | None) -> str | None:
    """Reason why one run gives no number, ``metrics`` None if nothing was measured;
    None if it gives one.
    """
    return broken([metrics] if metrics else [], ending)


def unreliable(summary: Summary) -> str | None:
    """Reason why `parse` ends with 4 for the same log."""
    if summary.fatal:
        return f"{summary.fatal.kind}: {summary.fatal.detail}"
    if summary.complete is False:
        return f"the last of {summary.planned_steps} planned steps was not reached"
    cut = _first([summary], "truncated_file") if summary.complete is None else None
    reason = cut or beyond_peak([summary])
    if reason:
        return reason.detail
    return None


def _broken(run: Metrics) -> str | None:
    """Reason why one run gives no number; None if it does."""
    fatal = run.fatal or next(
        (problem for problem in run.problems if kind_of(problem.kind).fatal == "verdict"), None
    )
    if run.num_steps == 0 and not run.results:
        return "the log holds no step"
    if fatal and run.results:
        return f"{fatal.kind}: {fatal.detail}"
    if run.complete is False:
        # A row may stand for several steps, and a log may begin after a checkpoint.
        made = max(run.num_steps, run.window.last_step if run.window else 0)
        return f"only {made} of {run.planned_steps} steps ran"
    if fatal:
        return f"{fatal.kind}: {fatal.detail}"
    if run.results or run.step_time_s or beyond_peak([run]):
        return None
    if run.warmup_rows_dropped == run.num_steps:
        return f"all {run.num_steps} rows were dropped as warm-up"
    return "the log has no step times; to compute them from its rates, state batch, sequence length and number of GPUs"


def beyond_peak(metrics: Sequence[Measurement]) -> ProblemEntry | None:
    """The problem of the first run that was faster than its GPU can be; such a run has
    no step time.
    """
    return _first(metrics, "impossible_rate")


def not_understood(metrics: Sequence[Measurement]) -> ProblemEntry | None:
    """The problem of the first run with options that change its work and are not
    understood.
    """
    return _first(metrics, "unknown_option")


def _first(metrics: Sequence[Measurement], kind: str) -> ProblemEntry | None:
    every = (problem for run in metrics for problem in run.problems)
    return next((problem for problem in every if problem.kind == kind), None)


def labels(
    own: Conditions, metrics: Sequence[Metrics], checks: Sequence[Check]
) -> tuple[Label, ...]:
    """Limits of a verdict on ``metrics`` that rests on ``checks``; the worst of several
    repeats is named.

    ``code`` is a key of ``texts`` here or in `labels_of_times`, or a pattern of slow
    steps.
    """
    others = {check.reference.key.recipe for check in checks} - {own.recipe}
    baselines = []
    for check in checks:
        if "baseline" in check.reference.flags:
            baselines.append(check.reference.source.who)
    skipping = max(metrics, key=lambda run: run.skipped_updates, default=None)
    skipped = skipping and skipping.skipped_updates
    texts: dict[str, Any] = {
        "proxy": own.reduced and f"proxy: {', '.join(map(str, own.reduced))}",
        "own_measurement": any("measured" in check.reference.flags for check in checks)
        and "against our own measurement",
        "baseline": baselines and f"against the {baselines[0]}",
        "twin_model": others
        and f"published for {', '.join(sorted(others))}, the same model at this sequence length",
        "skipped_updates": skipping
        and skipped
        and f"{skipped} of {skipping.steps_timed} steps without an update",
        "loss_rose": any(run.loss_rose for run in metrics) and "the loss rose",
    }
    for kind in NOTED:
        noted = _first(metrics, kind)
        texts[kind] = noted and noted.detail
    own_limits = tuple(Label(code=code, text=text) for code, text in texts.items() if text)
    # A verdict on a loss alone has no limits of step times.
    is_of_speed = any(check.metric not in LEARNED for check in checks)
    if is_of_speed:
        return (*own_limits, *labels_of_times(metrics))
    return own_limits


def labels_of_times(metrics: Sequence[Metrics]) -> tuple[Label, ...]:
    """Every limit of a verdict on the step times of ``metrics``, whatever they are
    compared with.
    """
    rows = min(
        (run.window.rows for run in metrics if run.window and not run.only_average),
        default=MIN_INTERVAL_ROWS,
    )
    drifts = []
    for run in metrics:
        if run.steadiness and run.steadiness.drifted:
            drifts.append(run.steadiness.drift_pct)
    texts: dict[str, Any] = {
        "few_steps": rows < MIN_INTERVAL_ROWS and f"{rows} row{'s' if rows > 1 else ''} timed",
        "drifting": drifts and f"the step time drifts by {max(drifts, key=abs):+.1f} %",
        "throttled": any(run.telemetry and run.telemetry.fault for run in metrics) and "throttled",
        "only_average": any(run.only_average for run in metrics)
        and "only the mean step time is known",
    }
    found = tuple(Label(code=code, text=text) for code, text in texts.items() if text)
    uneven = slow_steps(metrics)
    if uneven:
        return (*found, uneven)
    return found
