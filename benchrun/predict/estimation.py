"""Fitting the constants: those most probable given rows, parts of profiled steps, and what was known before.

The misses of similar rows are correlated (`kinship`), so fifty rows of one series weigh little more than one: the fit
is generalised least squares with a prior, by Gauss and Newton's steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.predict import constants, tuning
from benchrun.predict.choice import Chosen
from benchrun.predict.counting import work
from benchrun.predict.kinship import Array, Kinship, combined, noise, shared
from benchrun.predict.physics import seconds
from benchrun.predict.residuals import NORMAL, kind
from benchrun.predict.runs import Measured, profiled
from benchrun.predict.work import Value, Work
from benchrun.predict.workload import Workload

PART_NOISE = 0.03
"""Standard deviation of a profiled part that is long."""
SHORT, LEAST = 0.005, 0.003
"""A part of the first share of a step may as well be twice as long; one shorter than the second is left out."""
STEPS, FARTHEST, SMALL = 12, 0.5, 1e-3
"""Steps of the search, how far one may move a logarithm, and how far a derivative looks."""
Index = NDArray[Any]


class Table:
    """Rows with their step times, ready for any number of fits."""

    def __init__(self, loads: Sequence[Workload], step_s: Sequence[float], runs: Sequence[Measured | None]) -> None:
        self.loads, self.runs = list(loads), list(runs)
        self.logs = np.log(np.array(step_s))
        self.kinds = np.array([kind(load) for load in loads])
        self._work, self._chosen = Work.joined([work(load) for load in loads]), Chosen(loads)
        self.kinship = Kinship.of(loads)
        self._shares = shared(self.kinship, self.kinship)
        table = constants.table()
        self.names = self._chosen.names
        self.prior = np.log([table[name].prior for name in self.names])
        self.spread = np.array([table[name].spread for name in self.names])
        self.free = np.flatnonzero(self.spread > 0)
        self._parts = [(i, name, value) for i, run in enumerate(runs) for name, value in _profiled(run).items()]
        self._noise = self._part_noise(step_s)
        names = sorted({name for _, name, _ in self._parts})
        self._profiles = {name: self._places(name) for name in names}

    def _part_noise(self, step_s: Sequence[float]) -> Array:
        """Standard deviations of the logarithms of profiled parts; runs alike repeat one measurement."""
        alike = [(self.loads[i].model.name, self.loads[i].number, name) for i, name, _ in self._parts]
        short = np.array([SHORT * step_s[i] / value for i, _, value in self._parts])
        return np.asarray(np.hypot(PART_NOISE, short) * np.sqrt([alike.count(each) for each in alike]))

    def _places(self, name: str) -> tuple[list[int], list[int]]:
        """Where the profiled parts ``name`` stand among all parts, and the rows that they belong to."""
        pairs = [(column, i) for column, (i, each, _) in enumerate(self._parts) if each == name]
        return [column for column, _ in pairs], [i for _, i in pairs]

    def covariance(self, spread: Mapping[str, float], doubt: Array | None = None) -> Array:
        """Of the logarithms of all rows around the physics."""
        own = noise(spread, self.kinship) * (1 if doubt is None else doubt)
        return combined(spread, self._shares, self.kinship, self.kinship) + np.diag(own)

    def parts(self, logs: Array) -> Mapping[str, Array]:
        """Seconds of every row by part."""
        return seconds(self._work, self._chosen.of(logs))

    def predicted(self, logs: Array) -> Array:
        """Logarithms of the physics, of the rows and then of the profiled parts."""
        return self._logarithms(self.parts(logs))

    def _logarithms(self, parts: Mapping[str, Value]) -> Array:
        whole = sum(parts.values())
        profiled = np.empty((*np.shape(whole)[:-1], len(self._parts)))
        for name, (columns, at) in self._profiles.items():
            profiled[..., columns] = sum(parts[part] + 0.0 * whole for part in name.split("+"))[..., at]
        return np.asarray(np.log(np.concatenate([whole, profiled], axis=-1)))

    def slopes(self, logs: Array, at: Array) -> Array:
        """Derivatives of `predicted` by the free constants."""
        moved = seconds(self._work, self._chosen.moved(logs, self.free, SMALL))
        return np.asarray((self._logarithms(moved) - at).T / SMALL)

    def components(self, logs: Array, rows: Index, least: float) -> list[tuple[str, float]]:
        """Of parts above ``least`` of the profiled steps of ``rows``: their name and the miss of the physics."""
        predicted, inside = self.predicted(logs)[len(self.logs) :], set(rows.tolist())
        return [
            (name, abs(float(np.exp(predicted[n])) / value - 1))
            for n, (i, name, value) in enumerate(self._parts)
            if i in inside and value > least * np.exp(self.logs[i])
        ]

    def fitted(
        self, spread: Mapping[str, float], rows: Index, doubt: Array | None = None, start: Array | None = None
    ) -> Array:
        """Logarithms of the constants, from ``rows`` alone."""
        logs, count = (self.prior if start is None else start).copy(), len(self.logs)
        inside = set(rows.tolist())
        extra = np.array([count + n for n, (i, _, _) in enumerate(self._parts) if i in inside], dtype=int)
        measured = np.log([value for _, _, value in self._parts])
        target, deviations = np.concatenate([self.logs, measured]), self._noise[extra - count]
        chosen = np.concatenate([rows, extra])
        whiten = np.linalg.inv(np.linalg.cholesky(self.covariance(spread, doubt)[np.ix_(rows, rows)]))
        precision = np.diag(1 / self.spread[self.free] ** 2)
        for _ in range(STEPS):
            at = self.predicted(logs)
            slopes, misses = self.slopes(logs, at)[chosen], (target - at)[chosen]
            n = len(rows)
            white = np.concatenate([whiten @ slopes[:n], slopes[n:] / deviations[:, None]])
            seen = np.concatenate([whiten @ misses[:n], misses[n:] / deviations])
            pull = precision @ (self.prior[self.free] - logs[self.free])
            move = np.linalg.solve(white.T @ white + precision, white.T @ seen + pull)
            logs[self.free] += np.clip(move, -FARTHEST, FARTHEST)
            if np.abs(move).max() < 0.01:
                break
        return np.asarray(logs)

    def conditional(
        self, spread: Mapping[str, float], logs: Array, train: Index, test: Index, doubt: Array
    ) -> tuple[Array, Array]:
        """Medians (logarithms) of ``test`` given ``train``, and the half-widths of their intervals."""
        whole = self.covariance(spread)
        base = self.predicted(logs)[: len(self.logs)]
        among = whole[np.ix_(train, train)] + np.diag((noise(spread, self.kinship) * (doubt - 1))[train])
        alike = whole[np.ix_(test, train)]
        weights = np.linalg.solve(among, alike.T)
        median: Array = base[test] + weights.T @ (self.logs - base)[train]
        variance = np.diag(whole)[test] - (weights * alike.T).sum(axis=0)
        wider = np.array([spread[f"interval.{each}"] for each in self.kinds[test]])
        return median, wider * NORMAL * np.sqrt(np.maximum(variance, 0))

    def tuned(
        self, start: Mapping[str, float], logs: Array, rows: Index, doubt: Array, series: Sequence[str]
    ) -> dict[str, float]:
        """The standard deviations of the covariance and the factors on intervals, from ``rows`` alone."""
        at = self.predicted(logs)
        slopes = self.slopes(logs, at)[rows]
        # Around the prior: the search sees how uncertain the constants are.
        misses = (self.logs - at[: len(self.logs)])[rows]
        around = misses + slopes @ (logs - self.prior)[self.free]
        near = replace(self.kinship.part(rows), residuals=around, doubt=doubt[rows])
        slopes = slopes * self.spread[self.free]
        spread = tuning.tuned(start, near, slopes)
        return tuning.widened(spread, near, slopes, [series[i] for i in rows], [str(kind) for kind in self.kinds[rows]])

    def doubted(self, spread: Mapping[str, float], rows: Index) -> tuple[Array, Array]:
        """Constants, and factors on the noise of rows that the others contradict: more than 2.5 deviations off."""
        doubt, logs = np.ones(len(self.logs)), self.prior
        for _ in range(2):
            logs = self.fitted(spread, rows, doubt, logs)
            misses = (self.logs - self.predicted(logs)[: len(self.logs)])[rows]
            inverse = np.linalg.inv(self.covariance(spread, doubt)[np.ix_(rows, rows)])
            deviations = np.abs(inverse @ misses) / np.sqrt(np.diag(inverse))  # leaving one out
            doubt[rows] *= np.maximum(1.0, (deviations / 2.5) ** 2)
        return self.fitted(spread, rows, doubt, logs), doubt


def _profiled(run: Measured | None) -> dict[str, float]:
    """Seconds of the parts of a profiled step that are long enough to be known."""
    if run is None:
        return {}
    return {name: value for name, value in profiled(run).items() if value > LEAST * run.step_s}
