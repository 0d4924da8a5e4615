"""Runs of consecutive jobs of one node, and how well the slowness of that node explains
the step times of all jobs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchrun.measure.statistics import Floats, Ints

FALSE_ALARMS = (0.01, 0.005)
"""Chance that the audit of a healthy fleet accuses any node of being slow up to its last
job, and of having been slow for a while. The second has many more windows to be found in.
Thirty audits a month accuse less than half a healthy node.
"""
SUSPICION = 10
"""Times as often, a healthy node is called perhaps slow."""
FEWEST_JOBS = 3
"""Jobs that can accuse a node: one or two slow ones may have any reason."""
SHUFFLES = 200
SEED = 20240917


class Jobs(NamedTuple):
    """The jobs that are compared, in the order of their start."""

    log_time: Floats
    """Logarithm of the step time."""
    error: Floats
    """Relative standard error of the step time, from the job's own steps."""
    kind: Ints
    """Number of its kind, from 0."""
    days: Floats
    """Share of its time on each day: a row a job."""
    nodes: Sequence[Ints]
    """Numbers of its nodes, from 0."""


class Table:
    """Which job ran on which node: one entry a job and node, sorted by node and start."""

    def __init__(self, jobs: Jobs, nodes: int) -> None:
        counts = [len(each) for each in jobs.nodes]
        job = np.repeat(np.arange(len(counts)), counts)
        node = np.concatenate([*jobs.nodes, np.zeros(0, np.int64)]).astype(np.int64)
        order = np.lexsort((job, node))
        self.job, self.node = job[order], node[order]
        self.begin = np.searchsorted(self.node, np.arange(nodes))
        self.end = np.searchsorted(self.node, np.arange(nodes), side="right")

    def jobs_of(self, node: int) -> Ints:
        """The jobs of a node."""
        return self.job[self.begin[node] : self.end[node]]


class Windows:
    """Runs of consecutive jobs of one node: of lengths that grow by half, and all that
    last to its end. One or two jobs accuse no node, but may explain what another did.
    """

    def __init__(self, table: Table, kind: Ints, deviation: Floats) -> None:
        """``kind`` and ``deviation``: number of the kind and standard deviation of each job."""
        count = len(table.job)
        begins = [np.arange(count)]
        ends = [table.end[table.node]]
        length = 1
        while length < (table.end - table.begin).max(initial=0):
            begin = np.arange(count - length + 1)
            inside = table.node[begin] == table.node[begin + length - 1]
            begins.append(begin[inside])
            ends.append(begin[inside] + length)
            length = -(-3 * length // 2)
        self.table, self.kind = table, kind
        self.begin, self.end = np.concatenate(begins), np.concatenate(ends)
        self.short = self.end - self.begin < FEWEST_JOBS
        self.node = table.node[self.begin]
        self.passing = (self.end < table.end[self.node]).astype(int)
        """1 for a window after which the node has other jobs."""
        self.weight = 1 / deviation
        inside = self.sums(self.weight**2)
        # What is common to all jobs of a kind is its level, and says nothing of a node.
        by_kind = np.bincount(kind, self.weight**2)
        pairs = np.unique(table.node * len(by_kind) + kind[table.job])
        compared = np.bincount(pairs // len(by_kind), by_kind[pairs % len(by_kind)])
        self.information = inside * (1 - inside / compared[self.node])
        self.freedom = max(len(kind) - len(by_kind), 1)

    def sums(self, values: Floats) -> Floats:
        """The sum of each window over a value a job."""
        total = np.concatenate([[0.0], np.cumsum(values[self.table.job])])
        found: Floats = total[self.end] - total[self.begin]
        return found

    def centred(self, values: Floats) -> Floats:
        """Values of all jobs beside the mean of their kind."""
        means = np.bincount(self.kind, values) / np.maximum(np.bincount(self.kind), 1)
        return np.asarray(values - means[self.kind])

    def shares(self, values: Floats) -> Floats:
        """Part of the variance of all jobs that each window explains by the slowness of
        its node; negative where it is fast. ``values``: centred, in standard deviations.
        """
        sums = self.sums(values * self.weight)
        known = np.maximum(self.information, 1e-6 * self.weight.max() ** 2)
        whole = max(float(values @ values), 1e-9)
        return np.asarray(np.clip(sums * np.abs(sums) / known / whole, -1, 1))

    def effects(self, residual: Floats, values: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Effect of each window on the logarithm of the step time, and its standard error
        by the noise that the window leaves.
        """
        sums = self.sums(self.centred(residual) * self.weight**2)
        known = np.maximum(self.information, 1e-9)
        left = float(values @ values) / self.freedom * (1 - np.abs(shares))
        return sums / known, np.sqrt(left / known)

    def scores(self, shares: Floats) -> Floats:
        """Standard deviations that ``shares`` amount to, once what they explain is no
        noise any more.
        """
        left = np.log1p(-np.minimum(np.abs(shares), 1 - 1e-9))
        return np.asarray(np.sign(shares) * np.sqrt(-self.freedom * left))

    def limits(self, values: Floats) -> tuple[Floats, Floats]:
        """The scores that the slowest lasting and the slowest passing window of a healthy
        fleet exceed with the chances FALSE_ALARMS, and SUSPICION times as often: jobs are
        shuffled, and the largest scores follow Gumbel's distribution.
        """
        rng = np.random.default_rng(SEED)
        largest = np.zeros((SHUFFLES, 2))
        lasting, passing = (~self.short & (self.passing == each) for each in (0, 1))
        for row in largest:
            shares = self.shares(rng.permutation(values))
            row[:] = shares[lasting].max(initial=0.0), shares[passing].max(initial=0.0)
        largest = self.scores(largest)
        scale = largest.std(axis=0) * np.sqrt(6) / np.pi
        middle = largest.mean(axis=0) - scale * np.euler_gamma
        sure, likely = (np.log(-np.log1p(-n * np.array(FALSE_ALARMS))) for n in (1, SUSPICION))
        return middle - scale * sure, middle - scale * likely
