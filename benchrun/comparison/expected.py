"""The verdict against a prediction, where no published or measured number is comparable."""

import statistics
from collections.abc import Sequence

from benchrun.comparison.checks import Label, Name, not_understood
from benchrun.comparison.verdict import Verdict
from benchrun.metrics.model import Metrics
from benchrun.predict.prediction import Prediction

UNJUDGED = ("no_reference", "not_comparable")
"""Verdicts that a prediction replaces."""
LABEL = Label(code="prediction", text="against a prediction")


def against(expected: Prediction, verdict: Verdict, metrics: Sequence[Metrics]) -> Verdict:
    """``verdict`` replaced by one against ``expected``: slower only where the step time is above its whole interval."""
    measured = [run.step_time_s.median for run in metrics if run.step_time_s and run.step_time_s.median]
    if verdict.verdict not in UNJUDGED or not measured or not_understood(metrics):
        return verdict
    step = statistics.median(measured)
    name: Name = "slower_than_expected" if step > expected.high else "as_expected"
    percent = 100 * (step / expected.median - 1)
    relation = f"{abs(percent):.1f} % {'slower' if percent > 0 else 'faster'} than predicted"
    reason = (
        f"{relation}: {step:.4g} s a step, predicted {expected.median:.4g} s "
        f"({expected.low:.4g} to {expected.high:.4g} s, from {expected.calibration})"
    )
    return verdict.model_copy(update={"verdict": name, "reason": reason, "labels": (*verdict.labels, LABEL)})
