"""Limits of a verdict, in a few words each, for its first line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from benchrun.compare.checks import Check
from benchrun.compare.conditions import Conditions
from benchrun.model import Frozen

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics

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


def labels(ours: Conditions, metrics: Sequence[Metrics], checks: Sequence[Check]) -> tuple[Label, ...]:
    """Every limit of a verdict on ``metrics`` that rests on ``checks``; of repeats the worst is named."""
    timed = any(check.metric != "final_loss" for check in checks)
    return (*_of_conditions(ours, checks), *_of_work(metrics), *(_of_times(metrics) if timed else ()))


def _of_conditions(ours: Conditions, checks: Sequence[Check]) -> Iterator[Label]:
    if ours.reduced:
        yield Label(code="proxy", text=f"proxy: {', '.join(map(str, ours.reduced))}")
    if any("measured" in check.reference.flags for check in checks):
        yield Label(code="own_measurement", text="against our own measurement")
    others = {check.reference.key.recipe for check in checks} - {ours.recipe}
    if others:
        text = f"published for {', '.join(sorted(others))}, the same model at this sequence length"
        yield Label(code="twin_model", text=text)


def _of_work(metrics: Sequence[Metrics]) -> Iterator[Label]:
    """Limits of the work that the steps did."""
    if skipping := _worst(metrics, lambda run: run.skipped_updates):
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
    drifts = [run.steadiness.drift_pct for run in metrics if run.drifted and run.steadiness]
    if drifts:
        yield Label(code="drifting", text=f"the step time drifts by {max(drifts, key=abs):+.1f} %")
    if any(run.telemetry and run.telemetry.fault for run in metrics):
        yield Label(code="throttled", text="throttled")
    if any(run.only_average for run in metrics):
        yield Label(code="only_average", text="only the mean is known")


def _worst(metrics: Sequence[Metrics], amount: Callable[[Metrics], float]) -> Metrics | None:
    worst = max(metrics, key=amount, default=None)
    return worst if worst is not None and amount(worst) else None
