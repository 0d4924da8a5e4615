"""Waits of a step beside kernels: for data, garbage collection, a core, a slow rank; in
s of a step, by what was recorded.
"""

import math
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import NamedTuple

import numpy as np

from benchrun.measure.statistics import Floats, robust_deviation
from benchrun.rundir.artifacts import BREAKDOWN, HOST, RANKS
from benchrun.rundir.fingerprint import IdleByCause
from benchrun.rundir.rank_times import RankTime

from .evidence import Evidence
from .model import FAULT_SHARE, Name, Saving
from .onset import FEWEST, SURE, late_since
from .saving import Statistic, of_late, saving

STEADY = 0.75
"""Share of the steps in which a rank must be behind the others: otherwise the slow rank
changes, and none is to blame.
"""
NOISE = 1.5
"""Robust deviations over the steps by which it must be behind, unless it is so in
nearly all of them.
"""
MUCH, NEARLY_ALL = 0.3, 0.9
"""Share of the step, and of the steps, by which a rank is behind and slow even if other
processes take its core.
"""
ONE_STEP = 0.15
"""Share of a single profiled step that a GPU's rank must be behind, or wait for data.
"""
FEW_STEPS = 20
"""Steps of which fewer say little about how steps differ."""
CORES_DIFFER = 0.1
"""Share of the step on CPUs by which ranks differ anyway: other processes and
hyper-threads share their cores.
"""
FASTEST = 0.05
"""Quantile of the steps that shows what every rank can do: a single fastest step may be
an accident.
"""
HALF = 0.5
DELAYS: tuple[tuple[Name, str, str], ...] = (
    ("data", "data_s", "waits for its loader"),
    ("host", "queued_s", "has threads waiting for a core"),
    ("host", "garbage_s", "collects garbage"),
    ("host", "between_s", "is between two steps"),
)
"""Cause -> the time of host.json that shows it, and what a rank does meanwhile."""
MOST_CORES = 30
"""Characters of a list of cores that a sentence can hold."""


class Late(NamedTuple):
    """A rank that the others wait for."""

    rank: int
    host: str | None
    seconds: float
    """Seconds of a step, the mean over the measured ones."""
    evidence: str
    since_step: int | None = None
    """First step in which it is behind; None if it is so from the first measured one
    on.
    """
    saving: Saving | None = None


class Wait(NamedTuple):
    """Time that the host spends otherwise while a GPU could work."""

    seconds: float
    evidence: str
    saving: Saving | None = None

    def at_most(self, seconds: float) -> "Wait":
        """A copy that is no longer than ``seconds``."""
        saved = self.saving
        if saved:
            saved = Saving(**{name: min(value, seconds) for name, value in saved})
        return Wait(min(self.seconds, seconds), self.evidence, saved)


def by_stage(run: Evidence) -> list[list[tuple[float, ...]]]:
    """The times that the ranks of each pipeline stage compute, in s, by step."""
    stages: dict[int, list[tuple[float, ...]]] = {}
    for rank in run.ranks.ranks if run.ranks else ():
        stages.setdefault(rank.stage, []).append(rank.compute_time_s)
    return [times for times in stages.values() if len(times[0])]


def stages_s(run: Evidence) -> list[float]:
    """Seconds that each pipeline stage computes in a step."""
    return [float(np.median(times)) for times in by_stage(run)]


def of_stages(seconds: Sequence[float], source: str = RANKS) -> str:
    """Say in words what the stages compute."""
    return (
        f"the stages compute {', '.join(f'{each:.3g}' for each in seconds)} s in a step ({source})"
    )


def late_rank(run: Evidence) -> Late | None:
    """The rank that computes longest in most steps, with what the others wait for it;
    None if none stands out.

    Time in which a rank that may use every core waits for one is the node's. It counts
    only if it is much, and not on CPUs, which other processes use too.
    """
    if run.ranks is None:
        late = _late_in_trace(run) or _late_in_profile(run)
        return None if late and _launches_late(run, late) else late
    measured = set(run.steps.tolist())
    rows = [row for row, step in enumerate(run.ranks.steps) if step in measured]
    if not rows:
        return None
    stages: dict[int, list[RankTime]] = {}
    for rank in run.ranks.ranks:
        stages.setdefault(rank.stage, []).append(rank)
    late_ranks = [_late_of(run, ranks, rows) for ranks in stages.values()]
    late = max(filter(None, late_ranks), key=lambda late: late.seconds, default=None)
    return None if late and _launches_late(run, late) else late


def _launches_late(run: Evidence, late: Late) -> bool:
    """Whether a rank of a tensor-parallel group may only launch later than the others.

    Its own time holds the gaps between its kernels. Where its GPU idles for so long,
    that GPU is no slower than the others, unless the host is shown to be held up.
    """
    if run.spec.layout.tp < 2 or late.since_step is not None:
        return False
    for name in ("data_s", "garbage_s", "queued_s", "between_s"):
        if beyond_others(run.host_s(name), late.rank) > HALF * late.seconds:
            return False
    idle = [
        1 - min(gpu.utilisation_percent, 100) / 100
        for gpu in (run.samples.gpus if run.samples else ())
        if gpu.utilisation_percent is not None
        and gpu.gpu == late.rank % run.spec.cluster.gpus_per_node
        and late.host in (None, gpu.host)
    ]
    if not idle and run.breakdown is not None:
        idle = [run.breakdown.idle_s / run.breakdown.step_s]
    return bool(idle) and max(idle) * run.typical_s > HALF * late.seconds


def _late_of(run: Evidence, ranks: Sequence[RankTime], rows: list[int]) -> Late | None:
    """Find the late rank among the ranks of a stage, which do the same work."""
    if len(ranks) < 2:
        return None
    assert run.ranks
    steps = [run.ranks.steps[row] for row in rows]
    times = np.array([[rank.compute_time_s[row] for row in rows] for rank in ranks])
    own = times - np.array([_taken(run, rank.rank, steps) for rank in ranks])
    late = None
    if run.on_gpu:
        late = _behind(times, MUCH * run.typical_s, NEARLY_ALL) or _behind(own, 0.0, STEADY)
        onset = late_since(times, FAULT_SHARE * run.typical_s)
    else:
        late = _behind(own, CORES_DIFFER * run.typical_s, STEADY)
        onset = late_since(own, max(CORES_DIFFER, FAULT_SHARE) * run.typical_s)
    if late is not None and run.spec.layout.ep > 1 and late.seconds <= SURE * late.deviation:
        # The router gives a rank more tokens in some steps and fewer in others.
        late = None
    longer, source = "s longer than the others in a step", run.ranks_from
    if onset is not None:
        slow = ranks[onset.row]
        first = steps[onset.place]
        mean_s = onset.seconds * (len(steps) - onset.place) / len(steps)
        if late is None or late.row == onset.row or late.seconds < mean_s:
            evidence = f"rank {slow.rank} computes {onset.seconds:.3g} {longer}, from step {first} on ({source})"
            saved = of_late(mean_s, times, onset.row, onset.place)
            return Late(slow.rank, slow.host, mean_s, evidence, first, saved)
    if late is None:
        return None
    slow = ranks[late.row]
    percent = 100 * late.share
    evidence = f"rank {slow.rank} computes {late.seconds:.3g} {longer}, in {percent:.0f} % of the steps ({source})"
    saved = of_late(late.seconds, times, late.row)
    return Late(slow.rank, slow.host, late.seconds, evidence, saving=saved)


class _Behind(NamedTuple):
    """A rank behind the others in most steps."""

    row: int
    seconds: float
    """Median over the steps."""
    share: float
    """Share of the steps in which it is behind."""
    deviation: float
    """Robust, over the steps, in s."""


def _behind(times: Floats, least_s: float, share: float) -> _Behind | None:
    """The row of ``times``, in s by rank and step, that is behind the others.

    None if that is within the noise, less than ``least_s``, or in fewer than ``share``
    of the steps.
    """
    last = int(np.median(times, axis=1).argmax())
    behind = times[last] - np.median(np.delete(times, last, axis=0), axis=0)
    seconds = float(np.median(behind))
    often = float(np.mean(behind > 0))
    deviation = robust_deviation(behind)
    noise = 0.0 if often >= NEARLY_ALL else NOISE * deviation
    if len(behind) < FEWEST:
        noise = SURE * _apart(np.delete(times, last, axis=0))
    if seconds <= max(least_s, noise) or often < share:
        return None
    return _Behind(last, seconds, often, deviation)


def _apart(times: Floats) -> float:
    """Deviation of ranks from each other, in s; infinite for one rank.

    Some rank is the last in any step: in few steps only what the others differ by shows
    whether that is an accident.
    """
    return float(np.std(np.median(times, axis=1))) if len(times) > 1 else math.inf


def _taken(run: Evidence, rank: int, steps: Sequence[int]) -> Floats:
    """Seconds that other processes of the node took of a rank in each step: its wait
    for any core.
    """
    taken = np.zeros(len(steps))
    if run.hosts is None:
        return taken
    by_rank = {each.rank: each for each in reversed(run.hosts.ranks)}
    own = by_rank.get(rank)
    if own is None or own.bound:
        return taken
    by_step = dict(enumerate(own.queued_s, run.hosts.first_step))
    return np.array([by_step.get(step, 0.0) for step in steps])


def bound(run: Evidence, rank: int | None = None) -> bool:
    """Whether ``rank`` (some rank, if None) is bound to a part of its node's cores."""
    ranks = run.hosts.ranks if run.hosts else ()
    return any(each.bound for each in ranks if rank in (None, each.rank))


def beyond_others(by_rank: dict[int, float], rank: int) -> float:
    """Seconds by which a rank's value is above the median of the others'; 0 if that is
    unknown.
    """
    others = [value for other, value in by_rank.items() if other != rank]
    if rank not in by_rank or not others:
        return 0.0
    return by_rank[rank] - median(others)


def _late_in_trace(run: Evidence) -> Late | None:
    fingerprint = run.fingerprint
    if fingerprint is None or not fingerprint.stragglers:
        return None
    slow = max(fingerprint.stragglers, key=lambda each: each.behind_s)
    evidence = "the others wait for it in collectives (trace)"
    return Late(slow.rank, slow.host, slow.behind_s / steps_of_trace(run), evidence)


def _late_in_profile(run: Evidence) -> Late | None:
    """The rank that waited much less than the others in the one profiled step; stages
    wait for each other by design.

    On CPUs other processes take a core from one rank for a step: without that, and only
    if it was counted.
    """
    if run.breakdown is None or run.spec.layout.pp > 1:
        return None
    waited = run.breakdown.communication_of_ranks_s
    taken = run.breakdown.queued_of_ranks_s
    if len(waited) < 2 or (not run.on_gpu and len(taken) != len(waited)):
        return None
    rank = min(range(len(waited)), key=waited.__getitem__)
    seconds = beyond_others({each: -wait for each, wait in enumerate(waited)}, rank)
    least = ONE_STEP
    if not run.on_gpu:
        seconds -= max(beyond_others(dict(enumerate(taken)), rank), 0.0)
        least = MUCH
    seconds *= run.typical_s / run.breakdown.step_s
    if seconds < least * run.typical_s:
        return None
    evidence = f"rank {rank} waits {seconds:.3g} s less for the others than they do ({BREAKDOWN}, one step)"
    return Late(rank, None, seconds, evidence)


def steps_of_trace(run: Evidence) -> float:
    """Steps in the window of the trace."""
    assert run.fingerprint
    return run.fingerprint.steps or max(run.fingerprint.window_s / run.typical_s, 1.0)


def data_wait(run: Evidence) -> Wait | None:
    """Waiting for the data loader: on the rank that waits longest, because the others
    wait for it.
    """
    if by_rank := run.host_s("data_s"):
        rank = max(by_rank, key=by_rank.__getitem__)
        return Wait(
            by_rank[rank],
            f"rank {rank} waits {by_rank[rank]:.3g} s in a step for its loader ({HOST})",
            _saving_of_host(run, "data_s", rank, by_rank[rank], np.median),
        )
    words = "the launching thread sits in the loader"
    return _idle_of_trace(run, lambda causes: causes.data, words, most=True) or _data_in_profile(
        run
    )


def _data_in_profile(run: Evidence) -> Wait | None:
    """Wait for data in the one profiled step, if it is more than a single delay."""
    if not run.breakdown:
        return None
    waited = run.breakdown.data_of_ranks_s
    longest = max(waited, default=0.0)
    if longest < ONE_STEP * run.breakdown.step_s:
        return None
    rank = waited.index(longest)
    seconds = longest * run.typical_s / run.breakdown.step_s
    return Wait(
        seconds, f"rank {rank} waits {seconds:.3g} s for its loader ({BREAKDOWN}, one step)"
    )


def others_without_core(run: Evidence) -> Wait | None:
    """Wait of the profiled step's ranks in collectives for a rank that had no core, the
    mean over ranks.

    Known on CPUs alone. Stages of a pipeline wait for each other by design.
    """
    profiled = run.breakdown
    if profiled is None or run.on_gpu or run.spec.layout.pp > 1:
        return None
    waited = profiled.communication_of_ranks_s
    taken = profiled.queued_of_ranks_s
    if len(waited) < 2 or len(taken) != len(waited):
        return None
    rank = max(range(len(taken)), key=taken.__getitem__)
    longer = max(beyond_others(dict(enumerate(taken)), rank), 0.0)
    lost = mean(min(max(each - waited[rank], 0.0), longer) for each in waited)
    words = f"rank {rank} waited {longer:.3g} s longer than the others for a core ({BREAKDOWN}, one step)"
    return Wait(lost * run.typical_s / profiled.step_s, words)


def garbage(run: Evidence) -> Wait | None:
    """Collecting Python's garbage: the sum over ranks' longest, because a rank that
    collects delays all.
    """
    if by_rank := run.mean_host_s("garbage_s"):
        rank = max(by_rank, key=by_rank.__getitem__)
        longest = by_rank[rank]
        return Wait(
            longest,
            f"a rank collects Python's garbage for {longest:.3g} s in a step ({HOST})",
            _saving_of_host(run, "garbage_s", rank, longest, np.mean),
        )
    return None


def between_steps(run: Evidence) -> Wait | None:
    """Seconds that the host spends between two steps, in which it launches nothing, on
    the rank that takes longest.
    """
    by_rank = run.host_s("between_s")
    if not run.between_s:
        return None
    rank = max(by_rank, key=by_rank.__getitem__)
    return Wait(
        run.between_s,
        f"rank {rank} is between two steps for {run.between_s:.3g} s, logs and saves ({HOST})",
        _saving_of_host(run, "between_s", rank, run.between_s, np.median),
    )


def _saving_of_host(
    run: Evidence, name: str, rank: int, seconds: float, statistic: Statistic
) -> Saving | None:
    return saving(seconds, np.array(run.steps_of_host(name)[rank]), statistic)


def queue(run: Evidence) -> Wait | None:
    """Waiting for a core, on the median rank."""
    if by_rank := run.host_s("queued_s"):
        usual = median(by_rank.values())
        steps = zip(*run.steps_of_host("queued_s").values(), strict=False)
        of_ranks = np.array([median(of_step) for of_step in steps])
        listed = {rank.cores for rank in run.hosts.ranks} if run.hosts else ()
        cores = " and ".join(sorted(listed))
        where = "their cores"
        if len(cores) < MOST_CORES:
            where = f"cores {cores}"
        return Wait(
            usual,
            f"threads that were ready to run waited {usual:.3g} s in a step for {where} ({HOST})",
            saving(usual, of_ranks, np.median),
        )
    return None


def ragged(run: Evidence) -> Wait | None:
    """Time that every rank computes longer in the mean step than in the fastest ones,
    while its GPU idles.

    Busy cores show it if waits for them were not counted. None in few steps, and
    without samples of the GPUs.
    """
    idle = run.idle_of_telemetry_s
    if run.ranks is None or idle is None or run.cores_counted:
        return None
    measured = np.isin(run.ranks.steps, run.steps)
    least = np.min([rank.compute_time_s for rank in run.ranks.ranks], axis=0)[measured]
    if len(least) < FEW_STEPS:
        return None
    seconds = float(_above_fastest(least, axis=0))
    words = f"every rank computes {seconds:.3g} s longer in the mean step than in the fastest ones ({run.ranks_from})"
    words += f"; the GPUs have no kernel for {idle:.3g} s of a step"
    return Wait(seconds, words, saving(seconds, least, _above_fastest)).at_most(idle)


def _above_fastest(times: Floats, *, axis: int) -> Floats:
    """Distance of the mean step from the fastest ones."""
    above: Floats = np.mean(times, axis=axis) - np.quantile(times, FASTEST, axis=axis)
    return above


def launching(run: Evidence) -> Wait | None:
    """Time in which the GPU had nothing because the host launched too late, the mean
    over ranks.
    """
    words = "the GPU waits for launches, by a late host and between them,"
    return _idle_of_trace(run, lambda causes: causes.host + causes.launch_gap, words)


def synchronising(run: Evidence) -> Wait | None:
    """Time in which the GPU had nothing because the host had waited for it."""
    return _idle_of_trace(run, lambda causes: causes.sync, "the host had waited for the GPU")


def _idle_of_trace(
    run: Evidence, share: Callable[[IdleByCause], float], words: str, *, most: bool = False
) -> Wait | None:
    if run.fingerprint is None:
        return None
    shares = []
    for rank in run.fingerprint.ranks:
        if rank.idle_by_cause:
            shares.append(share(rank.idle_by_cause))
    if not shares:
        return None
    chosen = max(shares) if most else mean(shares)
    seconds = chosen * run.typical_s
    return Wait(seconds, f"{words} in {100 * seconds / run.typical_s:.1f} % of the trace")
