"""Result of a search for the fastest layout: every layout with its prediction, and the
best that was measured.
"""

from collections.abc import Sequence
from typing import Literal

from benchrun.model import Frozen
from benchrun.vocabulary import HOUR_S

from .layouts import Candidate
from .search import Search, Trial


class TunedLayout(Frozen):
    """One legal layout."""

    layout: str
    """Its sizes above 1."""
    overrides: tuple[str, ...]
    """Words of ``--set`` that choose it."""
    predicted_s: float
    """Seconds of a step, predicted before any job."""
    low_s: float
    high_s: float
    expected_s: float
    """Seconds of a step, corrected by the jobs so far."""
    measured_s: float | None
    """Median step of its longest job; null if it was not tried or gave no number."""
    steps: int
    """Steps of all its jobs; 0 if it was not tried."""


class Foreseen(Frozen):
    """Cost of a search from its start."""

    jobs: int
    """Jobs if every prediction comes true."""
    gpu_hours: float
    """GPU-hours of these."""
    most_gpu_hours: float
    """GPU-hours at which the search ends, whatever it found."""


class Tuned(Frozen):
    """The search so far."""

    schema_version: Literal[1] = 1
    over: bool
    """Whether the search is over: no untried layout is likely to be faster by the gain
    that is sought, or the budget is spent.
    """
    best: TunedLayout | None
    """The fastest measured layout; null if none was measured."""
    layouts: tuple[TunedLayout, ...]
    """Layouts in the order of their predictions."""
    device_s: float
    """Device time of the jobs, an estimate: the start of a job is not measured."""
    exhaustive_device_s: float
    """Device time of trying every layout once, in s."""
    foreseen: Foreseen
    """What the whole search takes."""


def tuned(
    candidates: Sequence[Candidate], search: Search, trials: Sequence[Trial], over: bool
) -> Tuned:
    """The result of ``trials``."""
    measured, (expected, _) = search.measured(trials), search.expected(trials)
    layouts = tuple(
        TunedLayout(
            layout=each.name,
            overrides=each.overrides,
            predicted_s=each.prediction.median,
            low_s=each.prediction.low,
            high_s=each.prediction.high,
            expected_s=float(expected[place]),
            measured_s=measured.get(place),
            steps=sum(trial.steps for trial in trials if trial.layout == place),
        )
        for place, each in enumerate(candidates)
    )
    best = search.best(trials)
    jobs = search.foreseen()
    hours = candidates[0].spec.num_gpus / HOUR_S
    foreseen = Foreseen(
        jobs=len(jobs),
        gpu_hours=hours * sum(job.seconds for job in jobs),
        most_gpu_hours=hours * search.budget_s,
    )
    return Tuned(
        over=over,
        best=None if best is None else layouts[best],
        layouts=layouts,
        device_s=sum(trial.seconds for trial in trials),
        exhaustive_device_s=search.budget_s / search.share,
        foreseen=foreseen,
    )
