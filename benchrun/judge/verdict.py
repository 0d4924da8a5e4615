"""Metrics + references -> verdict. A run is checked for errors before its speed: a fast
wrong run is invalid.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import model_validator

from benchrun.measure.model import Metrics
from benchrun.measure.run import RunMeasurement
from benchrun.model import Frozen
from benchrun.rundir.artifacts import trained_with
from benchrun.rundir.find import KEPT, day_of, launch_time
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.runspec.spec import RunSpec
from benchrun.vocabulary import Exit

from .checks import (
    LEARNED,
    Check,
    Name,
    beyond_peak,
    broken,
    broken_run,
    countable,
    labels,
    loss_check,
    not_understood,
    speed_check,
)
from .choice import Choice, choice, choose, usable
from .conditions import Conditions, Difference, hard_differences, settings_distance
from .rates import ErrorRates, rates_of, unknown
from .references import Reference, matching
from .uneven import Label, slow_steps, too_uneven

_Fields = dict[str, Any]  # fields of a Verdict
_AGAINST_PREDICTION = re.compile(
    r"([\d.e+-]+) s a step, predicted ([\d.e+-]+) s \(([\d.e+-]+) to ([\d.e+-]+) s, from ([^)]*)\)"
)
PREDICTION = "prediction"


class SpeedRatio(Frozen):
    """Speed over that of a reference: above 1 is faster."""

    value: float
    low: float
    high: float | None
    """Ends of its interval; no upper one where only the mean step time is known."""
    reference: str
    """Id of a published number or a run; `PREDICTION`."""
    source: str
    """Who says so, and where."""

    @property
    def against(self) -> str:
        """What the speed is compared with, in few words."""
        if self.reference == PREDICTION:
            return PREDICTION
        if self.reference.startswith(KEPT):
            # Files of earlier versions have other words in their source.
            return f"own run of {day_of(self.reference)}"
        return self.source.partition(";")[0]


class Verdict(Frozen):
    """The answer, the entry it rests on, and why."""

    schema_version: Literal[1] = 1
    verdict: Name
    reason: str
    """One sentence."""
    ending: str | None
    runs: int
    checks: tuple[Check, ...] = ()
    differs: tuple[Difference, ...] = ()
    """Conditions that differ from the nearest reference; only with ``not_comparable``.
    """
    nearest: Reference | None = None
    conditions: Conditions
    labels: tuple[Label, ...] = ()
    """Limits of the verdict, shown in its first line."""
    chosen_because: Choice | None = None
    """Reason why the speed was compared with that reference and not another."""
    warmup: int | None = None
    """Rows that were dropped as warm-up because the user named the number; None for the
    usual one.
    """
    ratio: SpeedRatio | None = None
    """Speed over that of the reference; null where no speed was compared."""
    error_rates: ErrorRates | None = None
    """How often a verdict like this one errs; null in files of earlier versions."""

    @model_validator(mode="after")
    def _earlier(self) -> "Verdict":
        """Fill in the ratio of a verdict of a file without one."""
        if self.ratio is None:
            object.__setattr__(self, "ratio", _ratio(self.checks) or _predicted(self.reason))
        return self

    @property
    def exit_code(self) -> Exit:
        """OK and SLOW; any other verdict gives no number to act on, or one that needs a
        look first.
        """
        fast, slow = ("pass", "as_expected"), ("slow", "slower_than_expected")
        if self.verdict in fast:
            return Exit.OK
        return Exit.SLOW if self.verdict in slow else Exit.INCONCLUSIVE

    @property
    def headline(self) -> str:
        """The verdict with what limits it, e.g. ``PASS (proxy: num_layers 4 of 96)``."""
        limits = "; ".join(label.text for label in self.labels)
        if limits:
            return f"{self.verdict.upper()} ({limits})"
        return self.verdict.upper()


@dataclass(frozen=True)
class RunResult:
    """One run: its measurement, the verdict it was given, and its ending."""

    run_id: str
    spec: RunSpec
    metrics: Metrics | None
    verdict: Verdict | None
    ending: str | None = None
    """Ending of the run; None if it is not recorded."""
    fingerprint: Fingerprint | None = None
    """Fingerprint of a profiled run."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """env.json; empty if it is missing."""
    created: datetime | None = None
    """Time at which its directory was made; None if it is not recorded."""
    measurement: RunMeasurement | None = field(default=None, repr=False, compare=False)
    """Its log with the numbers; None without a log, and if only the numbers are needed.
    """

    @property
    def versions(self) -> Mapping[str, str]:
        """Version of each package that trained, if it is known."""
        return trained_with(self.environment)

    @property
    def launched(self) -> datetime | None:
        """Time of the launch; None if nothing says it."""
        return launch_time(self.run_id) or self.created

    @property
    def numbers(self) -> Metrics | None:
        """The metrics; None for an invalid, broken or incomplete run: its speed is no
        measurement.
        """
        invalid = self.verdict is not None and self.verdict.verdict == "invalid_run"
        if invalid or self.broken:
            return None
        return self.metrics

    @property
    def broken(self) -> str | None:
        """Reason why its job or its log gives no number; None if they give one."""
        return broken_run(self.metrics, self.ending)

    @property
    def judgement(self) -> str:
        """The verdict, else the ending of a run that failed, else "not judged"."""
        if self.verdict:
            return self.verdict.verdict
        if self.ending not in (None, "completed"):
            return self.ending
        return "not judged"


def judge(
    own: Conditions,
    metrics: Sequence[Metrics],
    references: Sequence[Reference],
    *,
    ending: str | None = None,
    by_name: bool = False,
) -> Verdict:
    """Judge one run, or the repeats of one.

    ``ending`` is how the job ended, if a job was launched. ``by_name``: the user named
    the one reference.
    """
    reason = broken(metrics, ending)
    outcome: _Fields = {"verdict": "invalid_run", "reason": reason}
    if not reason:
        outcome = _outcome(own, metrics, references, by_name)
    rates = unknown("no speed was compared")
    for check in outcome.get("checks", ()):
        if check.metric not in LEARNED:
            rates = rates_of(check, metrics)
    return Verdict(
        error_rates=rates,
        ending=ending,
        runs=len(metrics),
        conditions=own,
        labels=labels(own, metrics, outcome.get("checks", ())),
        warmup=metrics[0].warmup if metrics else None,
        **{**outcome, "reason": outcome["reason"] + _remarks(metrics)},
    )


def _ratio(checks: Sequence[Check]) -> SpeedRatio | None:
    """The speed over that of the reference; None where no speed was compared."""
    for check in checks:
        if check.metric not in LEARNED:
            entry = check.reference
            return SpeedRatio(
                value=check.ratio,
                low=check.low,
                high=check.high,
                reference=entry.id,
                source=entry.cited,
            )
    return None


def _predicted(reason: str) -> SpeedRatio | None:
    """The ratio to a prediction, from the sentence that files of earlier versions have."""
    match = _AGAINST_PREDICTION.search(reason)
    if match is None:
        return None
    step, median, low, high = map(float, match.groups()[:4])
    return over_prediction(step, median, low, high, match[5])


def over_prediction(step: float, median: float, low: float, high: float, source: str) -> SpeedRatio:
    """The speed of ``step``, in s, over that of a predicted one."""
    return SpeedRatio(
        value=median / step, low=low / step, high=high / step, reference=PREDICTION, source=source
    )


def _outcome(
    own: Conditions, metrics: Sequence[Metrics], references: Sequence[Reference], by_name: bool
) -> _Fields:
    """The verdict on runs that gave numbers: its name, the reason, and further fields."""
    if unknown := not_understood(metrics):
        return {"verdict": "not_comparable", "reason": unknown.detail}
    comparable = matching(own, references)
    fitting = countable(metrics, comparable, own)
    loss = loss_check(own, metrics, comparable)
    beyond = beyond_peak(metrics)
    best = None if beyond else choose(fitting, own)
    speed = speed_check(best, own, metrics) if best else None
    checks: _Fields = {"checks": tuple(check for check in (speed, loss) if check)}
    if loss and loss.verdict != "pass":
        reached = f"{loss.value:.4f}, not {loss.reference.value:.4f}"
        reason = f"the final {LEARNED[loss.metric]} is {reached}: this run computed something else"
        return {"verdict": "invalid_run", "reason": reason, **checks}
    if speed:
        reason = _speed_reason(speed, metrics) + _as_fast_as(speed, own, metrics, fitting)
        because = choice(speed.reference, fitting, own, by_name=by_name)
        return {"verdict": speed.verdict, "reason": reason, "chosen_because": because, **checks}
    if loss and not beyond:
        where = f"{own.recipe} on {own.num_gpus} x {own.gpu}"
        reason = f"the final {LEARNED[loss.metric]} agrees; no speed is published for {where}"
        return {"verdict": "pass", "reason": reason, **checks}
    nearest = _without_reference(own, references)
    if not beyond:
        return nearest
    # A reference, if there is one, hints at what may be wrong with steps faster than
    # the GPU's peak.
    reason = f"not credible: the speed is above the GPU's peak ({beyond.detail})"
    if reference := choose(comparable, own):
        return {"verdict": "faster_than_expected", "reason": reason, "nearest": reference, **checks}
    if nearest.get("differs"):
        # A condition that is not what was run, a sequence twice as long, makes any
        # speed impossible.
        return {**nearest, "reason": f"{nearest['reason']}; {reason}", **checks}
    return {"verdict": "invalid_run", "reason": f"{beyond.kind}: {beyond.detail}", **checks}


def _without_reference(own: Conditions, references: Sequence[Reference]) -> _Fields:
    """Verdict without a reference that agrees: what differs from the nearest one."""
    same = []
    for e in references:
        if e.key.recipe == own.recipe and e.key.gpu == own.gpu and usable(e):
            same.append(e)
    if not same:
        return {
            "verdict": "no_reference",
            "reason": f"no published number for {own.recipe} on {own.gpu}",
        }

    def distance(entry: Reference) -> tuple[float, ...]:
        differing = hard_differences(entry.key, own)
        # A condition that the source does not state may differ by any amount.
        unstated = sum(difference.theirs in (None, "") for difference in differing)
        # Ties go to the one at our scale: a person can change a batch more easily than
        # a cluster.
        other_scale, load = (
            entry.key.num_gpus != own.num_gpus,
            settings_distance(entry.key.settings, own.settings),
        )
        return len(differing), unstated, other_scale, load, bool(entry.flags)

    nearest = min(same, key=distance)
    differs = hard_differences(nearest.key, own)
    named = [f"{d.key}: reference {_stated(d.theirs)}, this run {_stated(d.ours)}" for d in differs]
    reason = (
        "; ".join(named)
        or f"the reference is a number of {nearest.unit}, which this run does not have"
    )
    return {"verdict": "not_comparable", "reason": reason, "differs": differs, "nearest": nearest}


def _stated(value: object) -> str:
    if value in (None, ""):
        return "not stated"
    return str(value)


def _speed_reason(check: Check, metrics: Sequence[Metrics]) -> str:
    percent = 100 * (check.ratio - 1)
    relation = f"{abs(percent):.1f} % {'faster' if percent >= 0 else 'slower'} than the reference"
    if check.verdict == "inconclusive":
        if "warned" in check.reference.flags and check.ratio < check.band[0]:
            return f"{relation}, whose source warns of it: {check.reference.notes}"
        if check.high is None:
            return f"{relation}, or faster: the log has only the mean step time, which includes the start-up"
        if check.low == check.high:
            return f"{relation}, but a single step was timed: run more steps"
        if (uneven := slow_steps(metrics)) and too_uneven(metrics):
            return f"{relation} by the median, but {uneven.text}"
        if len(metrics) > 1:  # more of them would lie as far apart
            some = f"only some of the {len(metrics)} runs are within the limits"
            return f"{relation}, but {some}: find out why they differ"
        return f"{relation}, but the step time varies too much: launch with --repeats 3, or set more training.steps"
    slower, fastest = f"up to {100 * (1 - check.band[0]):.0f} % slower", check.band[1]
    if fastest is None:
        return f"{relation} ({slower} passes; the source states more than this, so nothing is too fast)"
    return f"{relation} ({slower} or {100 * (fastest - 1):.0f} % faster passes)"


def _as_fast_as(
    speed: Check, own: Conditions, metrics: Sequence[Metrics], fitting: Sequence[Reference]
) -> str:
    """The release or variant that a slow run is as fast as, as a clause; empty if there
    is none.
    """
    passing = []
    for e in fitting:
        if speed.verdict == "slow" and speed_check(e, own, metrics).verdict == "pass":
            passing.append(e)
    same = choose(passing, own)
    if same is None:
        return ""
    by = ", ".join(filter(None, (same.release, same.key.variant)))
    with_what = f"with {by}" if by else f"in {same.source.date}"
    if "measured" in same.flags:
        return f"; it is as fast as our run of {same.source.date} ({same.key.framework}; --reference {same.id})"
    own_run = "baseline" in same.flags
    published = f"{'measured' if own_run else 'published'} {with_what}"
    return f"; it is as fast as what {same.source.who} {published} ({'run' if own_run else '--reference'} {same.id})"


def _remarks(metrics: Sequence[Metrics]) -> str:
    """Remarks on a throttled GPU or a loss that rose: the number stays comparable."""
    throttled = []
    for run in metrics:
        if run.telemetry and run.telemetry.fault:
            throttled.append(run.telemetry.fault)
    rose = [run.loss_rose for run in metrics if run.loss_rose]
    several = f" of {len(metrics)} runs" if len(metrics) > 1 else ""
    remarks = []
    for each in (throttled, rose):
        if each:
            remarks.append(f"; {each[0]}" + (f", in {len(each)}{several}" if several else ""))
    return "".join(remarks)
