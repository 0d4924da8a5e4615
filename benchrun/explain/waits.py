"""What a step waits for beside kernels: data, garbage, a core, a slow rank. In s of a step, by what was recorded."""

from collections.abc import Callable
from statistics import mean, median
from typing import NamedTuple

from benchrun.explain.evidence import Evidence
from benchrun.spec.artifacts import HOST, RANKS
from benchrun.trace.model import IdleByCause

STEADY = 0.75
"""Of the steps in which a rank must be behind the others: otherwise the slow rank changes, and none is to blame."""


class Late(NamedTuple):
    """A rank that the others wait for."""

    rank: int
    host: str | None
    seconds: float
    """Of a step."""
    evidence: str


class Wait(NamedTuple):
    """Time that the host spends otherwise while a GPU could work."""

    seconds: float
    evidence: str


def late_rank(known: Evidence) -> Late | None:
    """The rank that computes longest in most steps, with what the others wait for it; None where none stands out."""
    slowest = known.ranks.slowest if known.ranks else None
    if slowest is None:
        return _late_in_trace(known)
    if slowest.behind_s <= 0 or slowest.steps_behind < STEADY:
        return None
    share = 100 * slowest.steps_behind
    evidence = f"rank {slowest.rank} computes {slowest.behind_s:.3g} s longer than the others in a step"
    return Late(slowest.rank, slowest.host, slowest.behind_s, f"{evidence}, in {share:.0f} % of the steps ({RANKS})")


def _late_in_trace(known: Evidence) -> Late | None:
    fingerprint = known.fingerprint
    if fingerprint is None or not fingerprint.stragglers:
        return None
    slow = max(fingerprint.stragglers, key=lambda each: each.behind_s)
    return Late(
        slow.rank, slow.host, slow.behind_s / steps_of_trace(known), "the others wait for it in collectives (trace)"
    )


def steps_of_trace(known: Evidence) -> float:
    """Steps in the window of the trace."""
    assert known.fingerprint
    return known.fingerprint.steps or max(known.fingerprint.window_s / known.typical_s, 1.0)


def data_wait(known: Evidence) -> Wait | None:
    """Waiting for the data loader: on the rank that waits longest, because the others wait for it."""
    if by_rank := known.host_s("data_s"):
        rank = max(by_rank, key=lambda each: by_rank[each])
        return Wait(by_rank[rank], f"rank {rank} waits {by_rank[rank]:.3g} s in a step for its loader ({HOST})")
    return _idle_of_trace(known, lambda causes: causes.data, "the launching thread sits in the loader", most=True)


def garbage(known: Evidence) -> Wait | None:
    """Collecting Python's garbage: the sum over ranks' longest, because a rank that collects delays all."""
    if by_rank := known.mean_host_s("garbage_s"):
        longest = max(by_rank.values())
        return Wait(longest, f"a rank collects Python's garbage for {longest:.3g} s in a step ({HOST})")
    return None


def queue(known: Evidence) -> Wait | None:
    """Waiting for a core, on the median rank."""
    if by_rank := known.host_s("queued_s"):
        usual = median(by_rank.values())
        cores = min(rank.cores for rank in known.hosts.ranks) if known.hosts else 0
        evidence = f"threads that were ready to run waited {usual:.3g} s in a step for one of {cores} cores ({HOST})"
        return Wait(usual, evidence)
    return None


def launching(known: Evidence) -> Wait | None:
    """Time in which the GPU had nothing because the host launched too late, the mean over ranks."""
    return _idle_of_trace(known, lambda causes: causes.host + causes.launch_gap, "the host launches too late")


def synchronising(known: Evidence) -> Wait | None:
    """Time in which the GPU had nothing because the host had waited for it."""
    return _idle_of_trace(known, lambda causes: causes.sync, "the host had waited for the GPU")


def _idle_of_trace(
    known: Evidence, share: Callable[[IdleByCause], float], words: str, *, most: bool = False
) -> Wait | None:
    if known.fingerprint is None:
        return None
    shares = [share(rank.idle_by_cause) for rank in known.fingerprint.ranks if rank.idle_by_cause]
    if not shares:
        return None
    seconds = (max(shares) if most else mean(shares)) * known.typical_s
    return Wait(seconds, f"{words} in {100 * seconds / known.typical_s:.1f} % of the trace")
