"""The verdict against an expected step time, if no published or measured number is
comparable.
"""

import statistics
from collections.abc import Sequence
from typing import Protocol

from benchrun.measure.model import Metrics

from .checks import Name, labels_of_times, not_understood
from .rates import rates_of_prediction
from .uneven import Label, slow_steps, too_uneven
from .verdict import Verdict, over_prediction


class Expectation(Protocol):
    """The step time that a run should have, in s, from whatever can say it: the median,
    and an interval that holds 90 of 100.
    """

    @property
    def median(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def calibration(self) -> str:
        """Numbers that it rests on, for the reason of a verdict."""


UNJUDGED = ("no_reference", "not_comparable")
"""Verdicts that one against an expectation replaces."""
LABEL = Label(code="prediction", text="against a prediction")


def against(expected: Expectation, verdict: Verdict, metrics: Sequence[Metrics]) -> Verdict:
    """``verdict`` replaced by one against ``expected``: as expected are even steps
    within its whole interval.
    """
    measured = []
    for run in metrics:
        if run.step_time_s and run.step_time_s.median:
            measured.append(run.step_time_s.median)
    if verdict.verdict not in UNJUDGED or not measured or not_understood(metrics):
        return verdict
    step = statistics.median(measured)
    uneven = slow_steps(metrics) if too_uneven(metrics) else None
    name = _named(step, expected, is_even=uneven is None)
    percent = 100 * (expected.median / step - 1)
    relation = f"{abs(percent):.1f} % {'slower' if percent < 0 else 'faster'} than predicted"
    reason = (
        f"{relation}: {step:.4g} s a step, predicted {expected.median:.4g} s "
        f"({expected.low:.4g} to {expected.high:.4g} s, from {expected.calibration})"
    )
    if uneven and name == "inconclusive":
        reason = f"{reason}, but {uneven.text}"
    found = {
        "verdict": name,
        "reason": reason,
        "labels": (*verdict.labels, LABEL, *labels_of_times(metrics)),
        "ratio": over_prediction(
            step, expected.median, expected.low, expected.high, expected.calibration
        ),
        "error_rates": rates_of_prediction(expected.median, expected.high),
    }
    return verdict.model_copy(update=found)


def _named(step_time_s: float, expected: Expectation, *, is_even: bool) -> Name:
    if step_time_s > expected.high:
        return "slower_than_expected"
    if step_time_s < expected.low:
        return "faster_than_expected"
    if is_even:
        return "as_expected"
    return "inconclusive"
