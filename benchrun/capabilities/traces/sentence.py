"""The last line of a fingerprint: the largest loss, and what to change about it."""

from collections.abc import Callable
from statistics import mean

from benchrun.paths import table
from benchrun.rundir.fingerprint import Fingerprint, RankShares

LEAST = 0.03
"""Share of the window from which a loss is named."""
CAUSES = ("host", "launch_gap", "data", "sync")


def sentence(result: Fingerprint) -> str:
    """The largest loss of the ranks' windows with its advice; where none counts, the
    kernels that take longest.
    """
    found = _losses(result)
    name = max(found, key=lambda name: found[name][0])
    share, where = found[name]
    if share < LEAST:
        return f"No loss of {100 * LEAST:.0f} % or more: {_work(result)}."
    row = next(row for row in table(__file__, "losses.csv") if row["loss"] == name)
    words = row["words"].format(where=where)
    return f"The largest loss, {100 * share:.0f} % of the window: {words}. Advice: {row['advice']}."


def _losses(result: Fingerprint) -> dict[str, tuple[float, str]]:
    """Loss -> its share of the window, and where it is."""
    found = {"copy": (_mean(result, lambda rank: rank.copies), "")}
    unexplained = [rank.idle for rank in result.ranks if rank.idle_by_cause is None]
    found["idle"] = (sum(unexplained) / len(result.ranks), "")
    for cause in CAUSES:
        shares = [getattr(rank.idle_by_cause, cause, 0.0) for rank in result.ranks]
        found[cause] = (mean(shares), "")
    exposed = _mean(result, lambda rank: rank.exposed_comm)
    waiting, where = _waiting(result)
    late = 0.0
    for slow in result.stragglers[:1]:
        place = f"{slow.rank} on {slow.host}" if slow.host else str(slow.rank)
        late = slow.behind_s / result.window_s
        found["slow_rank"] = (late, place)
    waited = min(max(waiting, late), exposed)
    found["transfer"] = (exposed - waited, where)
    found["waiting"] = (max(waited - late, 0.0), where)
    return found


def _mean(result: Fingerprint, share: Callable[[RankShares], float]) -> float:
    return mean(share(rank) for rank in result.ranks)


def _waiting(result: Fingerprint) -> tuple[float, str]:
    """Share of the window in which ranks wait in collectives, and where they do so most."""
    waits: dict[str, float] = {}
    for each in result.collectives:
        where = f"{each.name} of {each.group}" if each.group else each.name
        seconds = (each.waiting_s or 0.0) * len(each.ranks) / len(result.ranks)
        waits[where] = waits.get(where, 0.0) + seconds
    longest = max(waits, key=lambda where: waits[where], default="")
    return sum(waits.values()) / result.window_s, longest


def _work(result: Fingerprint) -> str:
    """The class of kernels that takes longest, and its longest kernel."""
    shares = {}
    for name in ("matmul", "attention", "memory_bound", "communication"):
        shares[name] = mean([getattr(rank.classes, name) for rank in result.ranks])
    name = max(shares, key=lambda name: shares[name])
    words = f"{100 * shares[name]:.0f} % are {name.replace('_', ' ')} kernels"
    for kernel in result.kernels:
        if kernel.kernel_class == name:
            return f"{words}, most of them {kernel.name}"
    return words
