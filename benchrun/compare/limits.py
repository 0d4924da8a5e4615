"""What makes a verdict invalid (`broken`) and what limits it (`labels`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchrun.compare.checks import Check
from benchrun.compare.conditions import Conditions
from benchrun.model import Frozen

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics

FATAL_PROBLEMS = frozenset({"missing_loss", "missing_steps", "other_conditions", "unexplained_tflops"})
"""Fatal to a verdict, beside what is fatal in any log."""
BEYOND_PEAK = "impossible_rate"


def broken(metrics: Sequence[Metrics], ending: str | None) -> str | None:
    """Why these runs give no number; None where they do."""
    if ending not in (None, "completed"):
        return f"the job ended as {ending}"
    reasons = (reason for run in metrics if (reason := _broken(run)))
    return next(reasons, None if metrics else "nothing was measured")


def _broken(run: Metrics) -> str | None:
    fatal = run.fatal or next((problem for problem in run.problems if problem.kind in FATAL_PROBLEMS), None)
    if run.num_steps == 0 and not run.results:
        return "the log holds no step"
    if run.complete is False:
        # A row may stand for several steps, and a log may begin after a checkpoint.
        made = max(run.num_steps, run.window.last_step if run.window else 0)
        return f"only {made} steps of {run.planned_steps} were made"
    if fatal:
        return f"{fatal.kind}: {fatal.detail}"
    if run.results or run.step_time_s or beyond_peak(run):
        return None
    if run.warmup_rows_dropped == run.num_steps:
        return f"all {run.num_steps} rows were dropped as warm-up"
    return "the log holds no step time, and not what a rate needs to become one"


def beyond_peak(run: Metrics) -> str | None:
    """The problem of a run that was faster than its GPU can be, in words; such a run has no step time."""
    return next((problem.detail for problem in run.problems if problem.kind == BEYOND_PEAK), None)


class Label(Frozen):
    """One limit."""

    code: str
    """A key of `labels`."""
    text: str


def labels(own: Conditions, metrics: Sequence[Metrics], checks: Sequence[Check]) -> tuple[Label, ...]:
    """Every limit of a verdict on ``metrics`` that rests on ``checks``; of repeats the worst is named."""
    others = {check.reference.key.recipe for check in checks} - {own.recipe}
    skipping = max(metrics, key=lambda run: run.skipped_updates, default=None)
    skipped = skipping.skipped_updates if skipping else 0
    texts: dict[str, Any] = {
        "proxy": own.reduced and f"proxy: {', '.join(map(str, own.reduced))}",
        "own_measurement": any("measured" in check.reference.flags for check in checks)
        and "against our own measurement",
        "twin_model": others and f"published for {', '.join(sorted(others))}, the same model at this sequence length",
        "skipped_updates": skipping and skipped and f"{skipped} of {skipping.steps_timed} steps without an update",
        "loss_rose": any(run.loss_rose for run in metrics) and "the loss rose",
    }
    if any(check.metric != "final_loss" for check in checks):
        texts |= _of_times(metrics)
    return tuple(Label(code=code, text=text) for code, text in texts.items() if text)


def _of_times(metrics: Sequence[Metrics]) -> dict[str, Any]:
    """Limits of the step times, which do not concern a verdict on a loss alone."""
    from benchrun.metrics.statistics import MIN_INTERVAL_ROWS  # numpy, which a listing does without

    rows = min((run.window.rows for run in metrics if run.window and not run.only_average), default=MIN_INTERVAL_ROWS)
    drifts = [run.steadiness.drift_pct for run in metrics if run.steadiness and run.steadiness.drifted]
    return {
        "few_steps": rows < MIN_INTERVAL_ROWS and f"{rows} row{'s' if rows > 1 else ''} timed",
        "drifting": bool(drifts) and f"the step time drifts by {max(drifts, key=abs):+.1f} %",
        "throttled": any(run.telemetry and run.telemetry.fault for run in metrics) and "throttled",
        "only_average": any(run.only_average for run in metrics) and "only the mean is known",
    }
