"""Effects of kinds of job, days and nodes on the step time, from many jobs at once.

The logarithm of a job's step time is the level of its kind, plus what its days add, plus
what the slowest of its nodes adds, plus noise. Levels, days and nodes are fitted
together, robustly: one odd job moves none of them.

A node is accused where a run of its jobs is slower than chance explains: where it explains
more of what the step times vary by than any node of a fleet whose residuals are shuffled.
The worst node is accused first, its effect is fitted, and the others are looked at again,
which clears those that only ran beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.measure.statistics import Floats, Ints, robust_deviation

from .windows import FEWEST_JOBS, Jobs, Table, Windows

LEAST = 0.01
"""Slowness that matters: nodes and days below it are not named."""
SUSPECT = 0.02
"""Least slowness, at the lower end of its interval, that makes a node perhaps slow."""
FEWEST_OF_DAY = 10
"""Jobs of a day that tell of the whole cluster."""
DAY_PRIOR = 0.05
"""Standard deviation of the days' effects that the fit assumes."""
DAY_DEVIATIONS = 4.0
MOST_SLOW = 30
"""Nodes that are looked at as slow ones."""
BOUND, CLIP = 2.0, 4.0
"""Deviations from which a job counts less for the fit, and no more for an accusation."""
QUIETEST = 1e-3
"""Least relative noise of a job: a model is never better."""
PRIOR_JOBS = 10
"""Jobs by which the noise of one kind leans on that of all."""
SURE = 3.0
"""Logarithm of the odds by which a node must explain slow jobs better than another that
ran the same ones, and by which an end of its slowness must be seen.
"""
Z90 = 1.645


@dataclass
class Spell:
    """A node and the jobs in which it is slow."""

    node: int
    first: int
    """Place of the first slow job among the node's jobs."""
    last: int
    effect: float = 0.0
    """Logarithm of the factor on the step time."""
    error: float = 0.0
    odds: Floats = field(default_factory=lambda: np.zeros(1))
    """Logarithm of the probability of each place for ``first``."""


class Suspect(NamedTuple):
    """Nodes of which one is perhaps slow: chance makes a healthy fleet look so now and then."""

    nodes: tuple[int, ...]
    jobs: Ints
    """The slow jobs, and those between them."""
    effect: float
    """Logarithm of the factor on the step time."""
    error: float


@dataclass(frozen=True)
class Effects:
    """Effects that the jobs show, and the errors of these."""

    level: Floats
    """Logarithm of the step time that the other jobs of its kind let expect, for each
    job; NaN if there is no other.
    """
    level_error: Floats
    """Its standard error for a new job, with the noise."""
    levels: Floats
    """Logarithm of the step time on a usual day, for each kind."""
    levels_error: Floats
    day: Floats
    """Effect of each day; 0 unless it is slow."""
    day_spread: float
    node_spread: float  # standard deviation of healthy nodes, as day_spread of usual days
    known_days: Ints
    """Days whose effects were fitted: the first rows of ``covariance``."""
    slow_by: Floats
    """Effect of the slowest accused node, for each job."""
    blamed: Ints
    """Place of the slowest spell, for each job; -1 without one."""
    spells: list[Spell]
    covariance: NDArray[np.float64]
    """Covariance of the effects of the known days and then of the spells."""
    node: Floats
    """Effect of each node, over all its jobs or those of its spell."""
    node_error: Floats
    jobs_of: list[Ints]
    """Jobs of each node in the order of their start."""
    rivals: list[tuple[int, ...]]
    """Nodes of which one is slow, and their jobs do not tell which."""
    suspects: list[Suspect]


class _Fit:
    """Levels, days and spells, fitted to all jobs."""

    def __init__(self, jobs: Jobs, table: Table) -> None:
        self.jobs, self.table = jobs, table
        count = len(jobs.kind)
        self.kinds = int(jobs.kind.max(initial=-1)) + 1
        self.size = np.bincount(jobs.kind, minlength=self.kinds)
        self.by_kind = np.argsort(jobs.kind, kind="stable")
        self.begins = np.searchsorted(jobs.kind[self.by_kind], np.arange(self.kinds))
        self.known = np.flatnonzero(jobs.days.sum(axis=0) >= FEWEST_OF_DAY)
        self.weight = np.ones(count)
        self.spells: list[Spell] = []
        self.blamed = np.full(count, -1)
        self.slow_by = np.zeros(count)
        middle = np.zeros(self.kinds)
        for kind in range(self.kinds):
            middle[kind] = np.median(jobs.log_time[jobs.kind == kind])
        self.residual = jobs.log_time - middle[jobs.kind]
        self.deviation = self._deviation()
        self.solve()

    def solve(self) -> None:
        """Fit everything anew: which spell a job's slowest node is depends on the fit."""
        for _ in range(2):
            self._blame()
            for _ in range(2):
                self._solve()
        self.deviation = self._deviation()

    def _blame(self) -> None:
        """Give every job the slowest of its nodes' spells."""
        self.blamed[:] = -1
        self.slow_by[:] = 0.0
        for place, spell in enumerate(self.spells):
            jobs = self.table.jobs_of(spell.node)[spell.first : spell.last]
            slowest = jobs[self.slow_by[jobs] < max(spell.effect, 1e-9)]
            self.blamed[slowest] = place
            self.slow_by[slowest] = spell.effect

    def _solve(self) -> None:
        """One weighted least-squares fit; jobs far off count less."""
        off = np.abs(self.residual) / self.deviation
        self.weight = np.minimum(1.0, BOUND / np.maximum(off, 1e-9)) / self.deviation**2
        design = np.zeros((len(off), len(self.known) + len(self.spells)))
        design[:, : len(self.known)] = self.jobs.days[:, self.known]
        named = np.flatnonzero(self.blamed >= 0)
        design[named, len(self.known) + self.blamed[named]] = 1.0
        inside = design - self._means(design)[self.jobs.kind]
        ridge = np.full(design.shape[1], 1e-9)
        ridge[: len(self.known)] = DAY_PRIOR**-2
        weighted = inside * self.weight[:, None]
        self.normal = inside.T @ weighted + np.diag(ridge)
        self.values = np.linalg.solve(self.normal, weighted.T @ self.jobs.log_time)
        rest = self.jobs.log_time - design @ self.values
        self.level = self._means(rest[:, None])[:, 0]
        self.residual = rest - self.level[self.jobs.kind]
        for place, spell in enumerate(self.spells):
            spell.effect = max(float(self.values[len(self.known) + place]), 0.0)
        effects = np.array([0.0, *(spell.effect for spell in self.spells)])
        self.slow_by[named] = effects[1 + self.blamed[named]]

    def _means(self, columns: Floats) -> Floats:
        """Weighted mean of each column over the jobs of each kind."""
        weight = self.weight[:, None]
        sums = np.add.reduceat((columns * weight)[self.by_kind], self.begins)
        return sums / np.add.reduceat(weight[self.by_kind], self.begins)

    def _deviation(self) -> Floats:
        """Standard deviation of each job: of its kind's runs, and of its own steps."""
        several = self.size[self.jobs.kind] > 1
        every = self._between(several) if several.any() else QUIETEST
        own = np.empty(self.kinds)
        for kind in range(self.kinds):
            chosen = self.jobs.kind == kind
            count = int(self.size[kind])
            mine = self._between(chosen) * count / max(count - 1, 1)
            own[kind] = (count * mine + PRIOR_JOBS * every) / (count + PRIOR_JOBS)
        return np.sqrt(own[self.jobs.kind] + self.jobs.error**2)

    def _between(self, chosen: NDArray[np.bool_]) -> float:
        """Variance between jobs, without that of their own steps."""
        inside = float(np.median(self.jobs.error[chosen] ** 2))
        return max(robust_deviation(self.residual[chosen]) ** 2 - inside, QUIETEST**2)

    def covariance(self) -> NDArray[np.float64]:
        """Of the days' effects, each beside the mean of all days, and of the spells'."""
        beside = np.eye(len(self.normal))
        days = len(self.known)
        beside[:days, :days] -= 1 / max(days, 1)
        return np.asarray(beside @ np.linalg.inv(self.normal) @ beside.T)


def fitted(jobs: Jobs, nodes: int) -> Effects:
    """The effects of kinds, days and ``nodes`` nodes."""
    if not len(jobs.kind):
        no, none = np.zeros(0), np.zeros(0, np.int64)
        days = np.zeros(jobs.days.shape[1])
        return Effects(
            no, no, no, no, days, 0.0, 0.0, none, no, none, [], np.zeros((0, 0)), no, no, [], [], []
        )
    table = Table(jobs, nodes)
    fit = _Fit(jobs, table)
    rivals, suspects = _accuse(fit, table, nodes)
    return _effects(fit, table, nodes, rivals, suspects)


def _accuse(fit: _Fit, table: Table, nodes: int) -> tuple[list[tuple[int, ...]], list[Suspect]]:
    """Add spells to the ``fit`` until no node is slower than chance; returns nodes that
    cannot be told apart, and those whose slowness chance does not quite explain.
    """
    rivals: list[tuple[int, ...]] = []
    doubtful = np.zeros(len(fit.residual), bool)
    barred: list[int] = []
    sure = np.full(2, np.inf)
    while True:
        windows = Windows(table, fit.jobs.kind, fit.deviation)
        values = _values(fit, windows, doubtful)
        every, scores = _scores(fit, windows, values, barred)
        if not (scores > sure[windows.passing]).any():
            before, (sure, likely) = sure, windows.limits(values)
            if (sure >= before).all() or not (scores > sure[windows.passing]).any():
                break
        best = int(np.argmax(np.where(scores > sure[windows.passing], scores, 0.0)))
        group = _alike(windows, table, every, sure, best)
        barred += group
        if len(group) == 1:
            _add(fit, table, windows, best)
            if len(fit.spells) == MOST_SLOW:
                break
        else:
            rivals.append(group)
            doubtful[table.job[windows.begin[best] : windows.end[best]]] = True
    _clear(fit, table, nodes, float(sure[0]))
    barred = [spell.node for spell in fit.spells] + [node for group in rivals for node in group]
    return rivals, _suspects(fit, table, doubtful, barred, likely)


def _values(fit: _Fit, windows: Windows, doubtful: NDArray[np.bool_]) -> Floats:
    """Standard deviations by which each job is slow beside the others of its kind."""
    values = windows.centred(np.clip(fit.residual / fit.deviation, -CLIP, CLIP))
    values[doubtful] = 0.0
    return values


def _scores(
    fit: _Fit, windows: Windows, values: Floats, barred: Sequence[int]
) -> tuple[Floats, Floats]:
    """The score of each window but those of ``barred`` nodes, and the same of those alone
    that can accuse a node.
    """
    shares = windows.shares(values)
    every = windows.scores(shares)
    every[np.isin(windows.node, barred)] = 0.0
    # A slow node that is not yet found makes all jobs look noisy, and slow ones less so.
    slow = (values > min(1.0, values.max(initial=0.0) / 2)).astype(float)
    effect, error = windows.effects(fit.residual, values, shares)
    few = windows.short | (windows.sums(slow) < FEWEST_JOBS)
    return every, np.where(few | (effect - Z90 * error < LEAST / 2), 0.0, every)


def _suspects(
    fit: _Fit, table: Table, doubtful: NDArray[np.bool_], barred: list[int], limits: Floats
) -> list[Suspect]:
    """Groups of nodes that explain slow jobs better than ``limits``, the best first."""
    windows = Windows(table, fit.jobs.kind, fit.deviation)
    spread = _spread(fit, table, len(table.begin))
    suspects: list[Suspect] = []
    while True:
        values = _values(fit, windows, doubtful)
        every, scores = _scores(fit, windows, values, barred)
        if not (scores > limits[windows.passing]).any():
            return suspects
        best = int(np.argmax(np.where(scores > limits[windows.passing], scores, 0.0)))
        group = _alike(windows, table, every, limits, best)
        barred = [*barred, *group]
        found = windows.effects(fit.residual, values, windows.shares(values))
        effect, error = (float(each[best]) for each in found)
        error = float(np.hypot(error, spread))
        if effect - Z90 * error >= SUSPECT:
            jobs = table.job[windows.begin[best] : windows.end[best]]
            suspects.append(Suspect(group, jobs, effect, error))
            doubtful[jobs] = True


def _alike(
    windows: Windows, table: Table, scores: Floats, limits: Floats, best: int
) -> tuple[int, ...]:
    """The node of the window ``best``, and the others that ran most of its jobs and
    explain them nearly as well. One that recovered explains less: it has more windows.
    """
    gains = np.maximum(scores, 0.0) ** 2 - limits[windows.passing] ** 2
    jobs = table.job[windows.begin[best] : windows.end[best]]
    found = {int(windows.node[best])}
    for place in np.flatnonzero(gains > gains[best] - 2 * SURE):
        others = table.job[windows.begin[place] : windows.end[place]]
        if 2 * len(np.intersect1d(jobs, others)) > len(jobs):
            found.add(int(windows.node[place]))
    return tuple(sorted(found))


def _spread(fit: _Fit, table: Table, nodes: int) -> float:
    """Standard deviation of the effects of healthy nodes."""
    values, errors = _node_effects(fit, table, nodes)
    if (known := np.isfinite(errors)).sum() < FEWEST_OF_DAY:
        return 0.0
    variance = robust_deviation(values[known]) ** 2 - float(np.median(errors[known] ** 2))
    return float(np.sqrt(max(variance, 0.0)))


def _node_effects(fit: _Fit, table: Table, nodes: int) -> tuple[Floats, Floats]:
    """What each node adds over all its jobs beyond what is explained, and its standard
    error; infinite for a node of which nothing is known.
    """
    kind = fit.jobs.kind[table.job]
    weight = fit.weight[table.job]
    _, pair = np.unique(table.node * fit.kinds + kind, return_inverse=True)
    # A node that ran all jobs of a kind shows nothing: they have no other level.
    others = 1 - np.bincount(pair, weight)[pair] / np.bincount(fit.jobs.kind, fit.weight)[kind]
    sums = np.bincount(table.node, weight * fit.residual[table.job], nodes)
    information = np.bincount(table.node, weight * others, nodes)
    known = np.maximum(information, 1e-9)
    return sums / known, np.where(information > 1e-9, known**-0.5, np.inf)


def _add(fit: _Fit, table: Table, windows: Windows, best: int) -> None:
    """Give the node of the window ``best`` a spell, and fit everything again."""
    node = int(windows.node[best])
    first, last = int(windows.begin[best]), int(windows.end[best])
    jobs = table.job[first:last]
    begin = int(table.begin[node])
    others = np.setdiff1d(np.arange(len(fit.residual)), jobs)
    effect = float(fit.residual[jobs].mean() - fit.residual[others].mean())
    fit.spells.append(Spell(node, first - begin, last - begin, effect))
    for _ in range(2):
        fit.solve()
        _place(fit, table, len(fit.spells) - 1)
    fit.solve()


def _place(fit: _Fit, table: Table, place: int) -> None:
    """Find the jobs of a spell that explain most; all up to the node's last job unless
    an end of its slowness is sure.
    """
    spell = fit.spells[place]
    jobs = table.jobs_of(spell.node)
    mine = fit.blamed[jobs] == place
    residual = fit.residual[jobs] + np.where(mine, spell.effect, 0.0)
    weight = np.where(mine | (fit.blamed[jobs] < 0), fit.weight[jobs], 0.0)
    sums = np.concatenate([[0.0], np.cumsum(weight * residual)])
    information = np.concatenate([[0.0], np.cumsum(weight)])
    last = np.arange(FEWEST_JOBS, len(jobs) + 1)
    gains = np.full((len(last), len(jobs)), -np.inf)
    for row, end in enumerate(last):
        begin = np.arange(end - FEWEST_JOBS + 1)
        total = np.maximum(sums[end] - sums[begin], 0.0)
        known = np.maximum(information[end] - information[begin], 1e-9)
        gains[row, begin] = total**2 / (2 * known)
    row = len(last) - 1
    best = int(np.argmax(gains.max(axis=1)))
    if gains[best].max() > gains[row].max() + SURE:
        row = best
    spell.last = int(last[row])
    spell.first = int(np.argmax(gains[row]))
    spell.odds = gains[row] - np.logaddexp.reduce(gains[row])
    known = information[spell.last] - information[spell.first]
    spell.effect = float((sums[spell.last] - sums[spell.first]) / max(known, 1e-9))


def _clear(fit: _Fit, table: Table, nodes: int, limit: float) -> None:
    """Withdraw what does not stand once all other effects are fitted."""
    while fit.spells:
        variances = np.diag(fit.covariance())[len(fit.known) :]
        spread = _spread(fit, table, nodes)
        for spell, variance in zip(fit.spells, variances, strict=True):
            spell.error = float(np.sqrt(variance))
        scores = [each.effect / np.hypot(each.error, spread) for each in fit.spells]
        weak = [each.effect - Z90 * each.error < LEAST for each in fit.spells]
        worst = int(np.argmin(np.where(weak, 0.0, scores)))
        if scores[worst] > limit and not weak[worst]:
            return
        del fit.spells[worst]
        fit.solve()


def _effects(
    fit: _Fit,
    table: Table,
    nodes: int,
    rivals: list[tuple[int, ...]],
    suspects: list[Suspect],
) -> Effects:
    jobs = fit.jobs
    covariance = fit.covariance()
    day, middle, day_spread = _days(fit, covariance)
    total = np.bincount(jobs.kind, fit.weight, fit.kinds)[jobs.kind]
    others = total - fit.weight
    alone = others <= 1e-9 * total
    others[alone] = np.nan
    level = fit.level[jobs.kind] + middle - fit.residual * fit.weight / others
    node, node_error = _node_effects(fit, table, nodes)
    for spell in fit.spells:
        node[spell.node], node_error[spell.node] = spell.effect, spell.error
    return Effects(
        level=level,
        levels=fit.level + middle,
        levels_error=np.sqrt(1 / np.bincount(jobs.kind, fit.weight, fit.kinds)),
        level_error=np.sqrt(fit.deviation**2 + 1 / others),
        day=day,
        day_spread=day_spread,
        node_spread=_spread(fit, table, nodes),
        known_days=fit.known,
        slow_by=fit.slow_by,
        blamed=fit.blamed,
        spells=fit.spells,
        covariance=covariance,
        node=node,
        node_error=node_error,
        jobs_of=[*map(table.jobs_of, range(nodes))],
        rivals=rivals,
        suspects=suspects,
    )


def _days(fit: _Fit, covariance: NDArray[np.float64]) -> tuple[Floats, float, float]:
    """What each day adds to a usual one, 0 unless it is slow; the effect of a usual day,
    and the spread of days.
    """
    day = np.zeros(fit.jobs.days.shape[1])
    if len(fit.known) < FEWEST_JOBS:
        return day, 0.0, 0.0
    values = fit.values[: len(fit.known)]
    middle = float(np.median(values))
    above = values - middle
    spread = robust_deviation(values)
    error = np.sqrt(np.diag(covariance)[: len(fit.known)] + spread**2)
    slow = (above > LEAST) & (above > DAY_DEVIATIONS * error)
    day[fit.known[slow]] = above[slow]
    return day, middle, spread
