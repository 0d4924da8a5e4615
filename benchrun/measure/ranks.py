"""Slowest rank: ranks.json over the measured steps -> compute time of each rank, and
what the slowest is behind.

The step time cannot show it, because collectives make every rank wait for the slowest.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchrun.model import Frozen
from benchrun.rundir.rank_times import RankTimes

from .statistics import Floats


class RankCompute(Frozen):
    """One rank; medians over the window."""

    rank: int
    host: str
    stage: int
    """Its pipeline stage."""
    compute_time_s: float
    """Time of a step without collectives."""
    collective_time_s: float
    """Time of a step in collectives that nothing hides, with waiting for slower ranks.
    """


class SlowestRank(Frozen):
    """The rank that computes longest, beside the other ranks of its pipeline stage,
    which do the same work.
    """

    rank: int
    host: str
    behind_s: float
    """Seconds that it computes longer in a step than the median of the others: the
    median over the window.
    """
    behind_percent: float
    """Distance in percent of the step time."""
    steps_behind: float
    """Share of the steps in which it was behind, 0 to 1: near 0.5 by chance, near 1 for
    a slow rank.
    """


class RankSpread(Frozen):
    """All ranks of a run."""

    steps: int
    """Number of steps that the medians cover."""
    ranks: tuple[RankCompute, ...]
    slowest: SlowestRank | None
    """Slowest rank; None if no two ranks do the same work."""

    @property
    def sentence(self) -> str:
        """One line for a person."""
        times = [rank.compute_time_s for rank in self.ranks]
        text = f"compute {min(times):.4g} to {max(times):.4g} s of a step, without collectives"
        if (slowest := self.slowest) is None:
            return text
        return (
            f"{text}; rank {slowest.rank} on {slowest.host} is slowest, {slowest.behind_s:.3g} s behind the others "
            f"({slowest.behind_percent:.1f} % of the step; behind in {100 * slowest.steps_behind:.0f} % of the steps)"
        )


def rank_spread(times: RankTimes | None, window: tuple[int, int]) -> RankSpread | None:
    """The spread over the steps from ``window[0]`` to ``window[1]``; None if none of
    these was measured.
    """
    if times is None or not times.ranks:
        return None
    inside = [index for index, step in enumerate(times.steps) if window[0] <= step <= window[1]]
    if not inside:
        return None
    compute = np.array([rank.compute_time_s for rank in times.ranks])[:, inside]
    collective = np.array([rank.collective_time_s for rank in times.ranks])[:, inside]
    ranks = []
    for index, rank in enumerate(times.ranks):
        ranks.append(
            RankCompute(
                rank=rank.rank,
                host=rank.host,
                stage=rank.stage,
                compute_time_s=float(np.median(compute[index])),
                collective_time_s=float(np.median(collective[index])),
            )
        )
    step_s = float(np.median(compute + collective))
    return RankSpread(
        steps=len(inside), ranks=tuple(ranks), slowest=_slowest(ranks, compute, step_s)
    )


def _slowest(ranks: Sequence[RankCompute], compute: Floats, step_s: float) -> SlowestRank | None:
    stages = defaultdict(list)
    for index, rank in enumerate(ranks):
        stages[rank.stage].append(index)
    behind = {
        index: compute[index]
        - np.median(compute[[other for other in peers if other != index]], axis=0)
        for peers in stages.values()
        if len(peers) > 1
        for index in peers
    }
    if not behind:
        return None
    slowest = max(behind, key=lambda index: float(np.median(behind[index])))
    behind_s = float(np.median(behind[slowest]))
    return SlowestRank(
        rank=ranks[slowest].rank,
        host=ranks[slowest].host,
        behind_s=behind_s,
        behind_percent=100 * behind_s / step_s if step_s else 0.0,
        steps_behind=float(np.mean(behind[slowest] > 0)),
    )
