"""Fitting the constants: those most probable given rows, parts of profiled steps, and
what was known before.

The misses of similar rows are correlated (`kinship`), so fifty rows of one series weigh
little more than one: the fit is generalised least squares with a prior, by Gauss and
Newton's steps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import constants, tuning
from .choice import Chosen
from .counting import count
from .kinship import Array, Kinship, covariance, noise
from .physics import on_slow_host, seconds
from .residuals import FAR, NORMAL, kind
from .runs import Measured, profiled_parts
from .work import Counts, Value
from .workload import Workload

PART_NOISE = 0.03
"""Standard deviation of a profiled part that is long."""
SHORT, LEAST = 0.005, 0.003
"""A part of the first share of a step may as well be twice as long; one shorter than
the second is left out."""
STEPS, FARTHEST, SMALL = 12, 0.5, 1e-3
"""Steps of the search, how far one may move a logarithm, and how far a derivative
looks."""
Index = NDArray[Any]


class ProfiledPart(NamedTuple):
    """A part of a profiled step."""

    row: int
    """Index of its step in a table."""
    name: str
    """Parts of the physics that add up to it, joined by +."""
    seconds: float


class Table:
    """Rows with their step times, ready for any number of fits."""

    def __init__(
        self, loads: Sequence[Workload], step_s: Sequence[float], runs: Sequence[Measured | None]
    ) -> None:
        self.loads = list(loads)
        self.logs = np.log(np.array(step_s))
        self.kinds = np.array([*map(kind, loads)])
        self._counts = Counts.joined([*map(count, loads)])
        self._chosen = Chosen(loads)
        self.kinship = Kinship.of(loads)
        table = constants.constants_table()
        self.names = self._chosen.names
        self.prior = np.log([table[name].prior for name in self.names])
        self.spread = np.array([table[name].spread for name in self.names])
        self.free = np.flatnonzero(self.spread > 0)
        of = self._chosen.of(np.log([table[name].value for name in self.names]))
        wholes = [sum(seconds(self._counts, each).values()) for each in (of, on_slow_host(of))]
        self._hosts = (np.log(wholes[1] / wholes[0]) / NORMAL) ** 2
        self._parts = list(_long_parts(runs))
        self._rows_of_parts = np.array([part.row for part in self._parts], dtype=int)
        self._noise = self._part_noise(step_s)

    def _part_noise(self, step_s: Sequence[float]) -> Array:
        """Standard deviations of the logarithms of profiled parts; runs alike repeat
        one measurement, and ranks wait for a slow host inside collectives."""
        alike = []
        short = []
        for row, name, value in self._parts:
            load = self.loads[row]
            alike.append((load.model.name, load.number, name))
            short.append((SHORT + self._hosts[row] ** 0.5) * step_s[row] / value)
        repeats = [*map(alike.count, alike)]
        return np.asarray(np.hypot(PART_NOISE, short) * np.sqrt(repeats))

    def covariance(self, spread: Mapping[str, float], rows: Index, doubt: Array) -> Array:
        """Covariance of the logarithms of ``rows`` around the physics."""
        some = self.kinship.part(rows)
        return covariance(spread, some, some) + np.diag(noise(spread, some) * doubt[rows])

    def predicted(self, logs: Array) -> Array:
        """Logarithms of the physics, of the rows and then of the profiled parts."""
        return self._logarithms(seconds(self._counts, self._chosen.of(logs)))

    def _logarithms(self, parts: Mapping[str, Value]) -> Array:
        whole: Value = sum(parts.values())
        columns = [whole]
        for row, name, _ in self._parts:
            together: Value = 0.0 * whole
            for part in name.split("+"):
                together = together + parts[part]
            columns.append(together[..., [row]])
        return np.asarray(np.log(np.concatenate(columns, axis=-1)))

    def slopes(self, logs: Array, at: Array) -> Array:
        """Derivatives of `predicted` by the free constants."""
        moved = seconds(self._counts, self._chosen.moved(logs, self.free, SMALL))
        return np.asarray((self._logarithms(moved) - at).T / SMALL)

    def components(self, logs: Array, rows: Index, least: float) -> list[tuple[str, float]]:
        """Name and miss of the physics, for parts above the share ``least`` of the
        profiled steps of ``rows``."""
        predicted = np.exp(self.predicted(logs)[len(self.logs) :])
        misses = []
        for part, value in zip(self._parts, predicted, strict=True):
            if part.row in rows and part.seconds > least * np.exp(self.logs[part.row]):
                misses.append((part.name, abs(float(value) / part.seconds - 1)))
        return misses

    def fitted(self, spread: Mapping[str, float], rows: Index, doubt: Array, start: Array) -> Array:
        """Logarithms of the constants, from ``rows`` alone; the search begins at
        ``start``."""
        logs = start.copy()
        extra = np.flatnonzero(np.isin(self._rows_of_parts, rows))
        target = np.concatenate([self.logs, np.log([part.seconds for part in self._parts])])
        deviations = self._noise[extra]
        chosen = np.concatenate([rows, len(self.logs) + extra])
        whiten = np.linalg.inv(np.linalg.cholesky(self.covariance(spread, rows, doubt)))
        precision = np.diag(1 / self.spread[self.free] ** 2)
        for _ in range(STEPS):
            at = self.predicted(logs)
            slopes = self.slopes(logs, at)[chosen]
            misses = (target - at)[chosen]
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
        """Medians (logarithms) of ``test`` given ``train``, and the half-widths of
        their intervals."""
        base = self.predicted(logs)[: len(self.logs)]
        known = self.kinship.part(train)
        new = self.kinship.part(test)
        alike = covariance(spread, new, known)
        weights = np.linalg.solve(self.covariance(spread, train, doubt), alike.T)
        median = base[test] + weights.T @ (self.logs - base)[train]
        variance = (
            np.diag(covariance(spread, new, new))
            + noise(spread, new)
            + self._hosts[test]
            - (weights * alike.T).sum(axis=0)
        )
        wider = np.array([spread[f"interval.{each}"] for each in self.kinds[test]])
        return median, wider * NORMAL * np.sqrt(np.maximum(variance, 0))

    def tuned(
        self,
        start: Mapping[str, float],
        logs: Array,
        rows: Index,
        doubt: Array,
        series: Sequence[str],
    ) -> dict[str, float]:
        """The standard deviations of the covariance and the factors on intervals, from
        ``rows`` alone."""
        at = self.predicted(logs)
        slopes = self.slopes(logs, at)[rows]
        # Around the prior: the search sees how uncertain the constants are.
        misses = (self.logs - at[: len(self.logs)])[rows]
        around = misses + slopes @ (logs - self.prior)[self.free]
        near = replace(self.kinship.part(rows), residuals=around, doubt=doubt[rows])
        slopes = slopes * self.spread[self.free]
        spread = tuning.tuned(start, near, slopes)
        return tuning.widened(spread, near, slopes, np.array(series)[rows], self.kinds[rows])

    def doubted(self, spread: Mapping[str, float], rows: Index) -> tuple[Array, Array]:
        """Constants, and factors on the noise of rows whose host is unknown or that the
        others contradict: more than `FAR` deviations off."""
        doubt = 1 + self._hosts / noise(spread, self.kinship)
        logs = self.prior
        for _ in range(2):
            logs = self.fitted(spread, rows, doubt, logs)
            misses = (self.logs - self.predicted(logs)[: len(self.logs)])[rows]
            inverse = np.linalg.inv(self.covariance(spread, rows, doubt))
            deviations = np.abs(inverse @ misses) / np.sqrt(np.diag(inverse))  # leaving one out
            doubt[rows] *= np.maximum(1.0, (deviations / FAR) ** 2)
        return self.fitted(spread, rows, doubt, logs), doubt


def _long_parts(runs: Sequence[Measured | None]) -> Iterator[ProfiledPart]:
    """The parts of profiled steps that are long enough to be known."""
    for row, run in enumerate(runs):
        if run is not None:
            for name, value in profiled_parts(run).items():
                if value > LEAST * run.step_s:
                    yield ProfiledPart(row, name, value)
