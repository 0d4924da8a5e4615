"""What makes a verdict invalid (`broken`) and what limits it (`labels`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

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
    for run in metrics:
        fatal = run.fatal or next((problem for problem in run.problems if problem.kind in FATAL_PROBLEMS), None)
        if run.results and not run.num_steps and not fatal:  # of a workload other than training
            if run.complete is False:
                return "the log ends before its last result"
            continue
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
        if run.step_time_s is None and not beyond_peak(run):
            return "the log holds no step time, and not what a rate needs to become one"
    return None if metrics else "nothing was measured"


def beyond_peak(run: Metrics) -> str | None:
    """The problem of a run that was faster than its GPU can be, in words; such a run has no step time."""
    return next((problem.detail for problem in run.problems if problem.kind == BEYOND_PEAK), None)


Code = Literal[
    "proxy",
    "own_measurement",
    "twin_model",
    "skipped_updates",
    "few_steps",
    "drifting",
    "throttled",
    "loss_rose",
    "only_average",
]


class Label(Frozen):
    """One limit."""

    code: Code
    text: str


def labels(own: Conditions, metrics: Sequence[Metrics], checks: Sequence[Check]) -> tuple[Label, ...]:
    """Every limit of a verdict on ``metrics`` that rests on ``checks``; of repeats the worst is named."""
    timed = any(check.metric != "final_loss" for check in checks)
    return (*_of_conditions(own, checks), *_of_work(metrics), *(_of_times(metrics) if timed else ()))


def _of_conditions(own: Conditions, checks: Sequence[Check]) -> Iterator[Label]:
    if own.reduced:
        yield Label(code="proxy", text=f"proxy: {', '.join(map(str, own.reduced))}")
    if any("measured" in check.reference.flags for check in checks):
        yield Label(code="own_measurement", text="against our own measurement")
    others = {check.reference.key.recipe for check in checks} - {own.recipe}
    if others:
        text = f"published for {', '.join(sorted(others))}, the same model at this sequence length"
        yield Label(code="twin_model", text=text)


def _of_work(metrics: Sequence[Metrics]) -> Iterator[Label]:
    """Limits of the work that the steps did."""
    skipping = max(metrics, key=lambda run: run.skipped_updates, default=None)
    if skipping and skipping.skipped_updates:
        text = f"{skipping.skipped_updates} of {skipping.steps_timed} steps without an update"
        yield Label(code="skipped_updates", text=text)
    if any(run.loss_rose for run in metrics):
        yield Label(code="loss_rose", text="the loss rose")


def _of_times(metrics: Sequence[Metrics]) -> Iterator[Label]:
    """Limits of the step times, which do not concern a verdict on a loss alone."""
    from benchrun.metrics.statistics import MIN_INTERVAL_ROWS  # numpy, which a listing does without

    timed = [run.window.rows for run in metrics if run.window and not run.only_average]
    if timed and min(timed) < MIN_INTERVAL_ROWS:
        yield Label(code="few_steps", text=f"{min(timed)} row{'s' if min(timed) > 1 else ''} timed")
    drifts = [run.steadiness.drift_pct for run in metrics if run.steadiness and run.steadiness.drifted]
    if drifts:
        yield Label(code="drifting", text=f"the step time drifts by {max(drifts, key=abs):+.1f} %")
    if any(run.telemetry and run.telemetry.fault for run in metrics):
        yield Label(code="throttled", text="throttled")
    if any(run.only_average for run in metrics):
        yield Label(code="only_average", text="only the mean is known")
