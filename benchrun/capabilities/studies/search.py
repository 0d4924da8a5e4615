"""The search for the fastest of many layouts by few short jobs, as a pure function of
the jobs so far.

Layouts are tried in the order in which they may improve most on the best so far, half
as many in each round; the best of the tried are measured again over twice the steps.
Measurements correct the predictions of layouts that are alike (Gaussian process;
expected improvement: Jones, Schonlau and Welch 1998, doi:10.1023/A:1008306431147).
Successive halving: Jamieson and Talwalkar 2016 (arXiv:1502.07943).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchrun.capabilities.predict.kinship import Array, places
from benchrun.capabilities.predict.workload import Workload

COMMON, ALIKE, OWN, NOISE = 0.3, 0.06, 0.02, 0.004
"""Standard deviations of the logarithm of measured over predicted: of all layouts
together, of those alike, of each alone, and of a measurement over the first number of
steps.
"""
UNKNOWN = 3.0
"""The first of them for a machine of unknown speed."""
FEWEST = 3
"""Layouts to measure before chances count: one measurement cannot tell a slow layout
from a slow machine.
"""
CHANCE = 0.1
"""An untried layout that is faster with less than this probability is not worth a job.
"""


@dataclass(frozen=True)
class Trial:
    """A job of one layout."""

    layout: int
    """Its place in the order of predictions."""
    steps: int
    seconds: float
    """Device time of the job, start included."""
    step_s: float | None
    """Seconds of a step; None if the job failed, for example for want of memory."""


@dataclass(frozen=True)
class Job:
    """A layout to try, and over how many steps."""

    layout: int
    steps: int


@dataclass(frozen=True)
class Search:
    """Search for a layout: the candidates and the means."""

    loads: Sequence[Workload]
    predicted_s: Sequence[float]
    """Predicted seconds of a step, by layout; the fastest first."""
    steps: int = 8
    """Steps of the first jobs."""
    start_s: float = 60.0
    """Seconds of a job before its first step."""
    share: float = 0.25
    """Share of the device time that the search may take, where 1 tries every layout
    over ``steps`` steps.
    """
    common: float = COMMON
    """Standard deviation of what all predictions miss together; larger if the machine's
    speed is not known.
    """
    gain: float = 0.01
    """A smaller improvement is not worth a job."""

    def next(self, trials: Sequence[Trial]) -> list[Job]:
        """The jobs of the next round; empty if the search is over."""
        left = self.budget_s - sum(trial.seconds for trial in trials)
        jobs: list[Job] = []
        for job in self._untried(trials) or self._again(trials):
            left -= self.cost_s(job, trials)
            if left < 0 and (trials or jobs):
                break
            jobs.append(job)
        return jobs

    def foreseen(self) -> list[Trial]:
        """All jobs of the search if every prediction comes true."""
        trials: list[Trial] = []
        while jobs := self.next(trials):
            for job in jobs:
                step_s = self.predicted_s[job.layout]
                seconds = self.start_s + job.steps * step_s
                trials.append(Trial(job.layout, job.steps, seconds, step_s))
        return trials

    @property
    def budget_s(self) -> float:
        """Device time that the search may take, in s."""
        return self.share * sum(self.start_s + self.steps * each for each in self.predicted_s)

    def cost_s(self, job: Job, trials: Sequence[Trial] = ()) -> float:
        """Device time that ``job`` will take."""
        return self.start_s + job.steps * float(self.expected(trials)[0][job.layout])

    def best(self, trials: Sequence[Trial]) -> int | None:
        """The fastest measured layout; None if none was measured."""
        measured = self.measured(trials)
        return min(measured, key=measured.__getitem__, default=None)

    def measured(self, trials: Sequence[Trial]) -> dict[int, float]:
        """Seconds of a step of each measured layout, from its longest job."""
        measured = {}
        for trial in sorted(trials, key=lambda trial: trial.steps):
            if trial.step_s:
                measured[trial.layout] = trial.step_s
        return measured

    def expected(self, trials: Sequence[Trial]) -> tuple[Array, Array]:
        """Medians of the step of each layout, in s, and standard deviations of their
        logarithms.
        """
        predicted = np.array(self.predicted_s)
        measured = self.measured(trials)
        at = list(measured)
        alike = ALIKE**2 + OWN**2
        if not at:
            return predicted, np.full(len(predicted), np.sqrt(alike))
        spots = places(self.loads)
        # Of the measured layouts with all: the matrix of thousands with all takes minutes.
        squares = ((spots[at][:, None, :] - spots[None, :, :]) ** 2).sum(axis=2)
        rows = self.common**2 + ALIKE**2 * np.exp(-squares / 2)
        rows[range(len(at)), at] += OWN**2
        misses = np.log([measured[layout] for layout in at]) - np.log(predicted[at])
        weights = np.linalg.solve(rows[:, at] + NOISE**2 * np.eye(len(at)), rows)
        variance = self.common**2 + alike - (weights * rows).sum(axis=0)
        return predicted * np.exp(weights.T @ misses), np.sqrt(np.maximum(variance, 0))

    def _untried(self, trials: Sequence[Trial]) -> list[Job]:
        """Layouts that may well be faster than the best so far; in each round half as
        many as in the one before.
        """
        most = max(2, len(self.predicted_s) // 8)
        seen = {trial.layout for trial in trials}
        best = self.best(trials)
        medians, deviations = self.expected(trials)
        untried = [layout for layout in range(len(medians)) if layout not in seen]
        if best is None:
            return [Job(layout, self.steps) for layout in untried[:most]]
        measured = self.measured(trials)
        goal = math.log(measured[best] * (1 - self.gain))
        sure = len(measured) >= FEWEST
        gains = {}
        for layout in untried:
            below = (goal - math.log(medians[layout])) / deviations[layout]
            if not sure or _probability(below) > CHANCE:
                gains[layout] = deviations[layout] * _improvement(below)
        promising = sorted(gains, key=lambda layout: -gains[layout])
        count = max(1, most // 2 ** _rounds(len(seen), most))
        return [Job(layout, self.steps) for layout in promising[:count]]

    def _again(self, trials: Sequence[Trial]) -> list[Job]:
        """The better half of those that the noise of short jobs does not tell apart,
        over twice the steps.
        """
        measured = self.measured(trials)
        best = self.best(trials)
        if best is None:
            return []
        most = measured[best] * (1 + 3 * NOISE)
        close = sorted(
            (layout for layout in measured if measured[layout] <= most), key=measured.__getitem__
        )
        if len(close) < 2:
            return []
        again = {trial.layout for trial in trials if trial.steps > self.steps}
        better = close[: max(2, len(close) // 2)]
        found = []
        for layout in better:
            if layout not in again:
                found.append(Job(layout, 2 * self.steps))
        return found


def _rounds(tried: int, first: int) -> int:
    """Rounds so far, where each tried half as many as the one before."""
    rounds = 0
    size = first
    while tried > 0:
        tried = tried - size
        size = max(1, size // 2)
        rounds = rounds + 1
    return rounds


def _probability(deviations: float) -> float:
    """The probability that a normal variable is below this number of standard
    deviations.
    """
    return 0.5 * (1 + math.erf(deviations / math.sqrt(2)))


def _improvement(deviations: float) -> float:
    """Expected excess of a normal variable below this number of standard deviations, in
    standard deviations.
    """
    density = math.exp(-(deviations**2) / 2) / math.sqrt(2 * math.pi)
    return deviations * _probability(deviations) + density
