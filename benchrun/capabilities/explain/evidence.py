"""Everything that is known about a run, as one value; any part may be missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np

from benchrun import hardware
from benchrun.capabilities.explain.course import Course
from benchrun.capabilities.explain.timers import Printed
from benchrun.capabilities.explain.work import Work, work, work_unknown
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.measure.bound import Bound
from benchrun.measure.statistics import Floats
from benchrun.measure.steadiness import Steadiness
from benchrun.measure.telemetry import Sampled
from benchrun.rundir.artifacts import RANKS, Breakdown, Ceilings
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.rundir.network import Network
from benchrun.rundir.rank_times import HostTimes, RankTimes
from benchrun.runspec.spec import TrainingSpec

FEWEST_SAMPLES = 10
"""Fewest samples of a GPU: the first and the last one cover seconds outside of the
steps.
"""
IN_USE = 50
"""Percent of the time with a kernel, from which on a sampled clock is that of the
kernels.
"""


@dataclass(frozen=True)
class Evidence:
    """One run."""

    name: str
    spec: TrainingSpec
    times: Floats
    """Times of the measured steps without warm-up, in s."""
    steps: Floats
    """Their numbers."""
    steadiness: Steadiness | None = None
    earlier: Floats = field(default_factory=lambda: np.empty(0))
    """Times of the steps of the warm-up that were no slower than the measured ones, in
    s.
    """
    earlier_steps: Floats = field(default_factory=lambda: np.empty(0))
    same_work: bool = True
    """Every step does the same work, in one process."""
    course: Course | None = None
    """Samples of the GPUs beside the ends of the steps."""
    samples: Sampled | None = None
    ceilings: Ceilings | None = None
    bound: Bound | None = None
    breakdown: Breakdown | None = None
    ranks: RankTimes | None = None
    ranks_from: str = RANKS
    """Source of ``ranks``."""
    printed: Printed | None = None
    """Timers and reports in the log."""
    network: Network | None = None
    """Links of the ranks, as NCCL names them."""
    hosts: HostTimes | None = None
    fingerprint: Fingerprint | None = None
    machine: Mapping[str, str] = field(default_factory=dict)
    """Driver, limits and versions, by name, as the nodes stated them."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the job sets."""
    saves: bool = False
    """The log mentions that checkpoints are written."""
    saves_async: bool = False
    """Whether the log states that checkpoints are written asynchronously."""
    notes: tuple[str, ...] = ()
    """Reason why a source cannot be used."""
    resolution_s: float = 0.0
    """Resolution of the clock of the steps: times that differ by no more may be the
    same.
    """
    speaks_of_experts: bool = False
    """Whether the log does."""
    log_alone: bool = False
    """A log of a run whose directory is not known: ``spec`` holds what the log states.
    """
    work_known: bool = True
    """False for a log without its model, batch or precision: ``spec`` lacks them."""

    @property
    def routed(self) -> bool:
        """Whether a router may change the work of a step: its model is known to have
        experts, or the log speaks of them.
        """
        return bool(self.spec.model.moe) if self.work_known else self.speaks_of_experts

    @property
    def own_worker(self) -> bool:
        """Whether benchrun's own code trained: it can measure ceilings and a breakdown."""
        return not self.log_alone and FRAMEWORKS[self.spec.framework].own_worker

    @property
    def on_gpu(self) -> bool:
        """Whether the run used GPUs."""
        return self.spec.gpu != "CPU"

    @cached_property
    def least(self) -> Work:
        """Least work of a step, in s."""
        if self.work_known:
            return work(self.spec, self.ceilings)
        return work_unknown(self.spec)

    @cached_property
    def step_s(self) -> float:
        """Mean step."""
        return float(np.mean(self.times))

    @cached_property
    def typical_s(self) -> float:
        """Step without the slow ones: the median, if that is shorter than the mean by
        more than the clock shows.
        """
        middle = float(np.median(self.times))
        if middle < self.step_s - self.resolution_s:
            return middle
        return self.step_s

    @cached_property
    def between_s(self) -> float:
        """Seconds from the end of a step to the begin of the next, typical, on the rank
        that takes longest.
        """
        return min(max(self.host_s("between_s").values(), default=0.0), self.typical_s)

    @property
    def inner_s(self) -> float:
        """The typical step from its begin to its end, as steps are profiled."""
        return self.typical_s - self.between_s

    @property
    def clock(self) -> hardware.Clock | None:
        """Clock and power of the data sheet."""
        return hardware.clock(self.spec.gpu)

    @property
    def clock_mhz(self) -> float | None:
        """Median clock of the GPUs; None if they stood still for the most part, because
        they lower it themselves.
        """
        if self.samples is None:
            return None
        state = self.samples.over_all
        if (state.utilisation_percent or 0.0) >= IN_USE:
            return state.sm_clock_mhz
        return None

    @cached_property
    def idle_of_telemetry_s(self) -> float | None:
        """Time of a step in which no kernel ran, by the utilisation of the GPUs; None
        with too few samples of it.
        """
        if self.samples is None:
            return None
        state = self.samples.over_all
        used = state.utilisation_percent
        if used is None or state.samples < FEWEST_SAMPLES * self.spec.num_gpus:
            return None
        return (1 - min(used, 100.0) / 100) * self.typical_s

    @cached_property
    def collective_s(self) -> float | None:
        """Time of a step that the rank with the most of it spends in collectives; None
        if it was not measured.

        One rank sends nothing: what its record has is other time, such as copies of
        offloaded activations.
        """
        if self.spec.num_gpus == 1 or self.ranks is None:
            return None
        times = [rank.collective_time_s for rank in self.ranks.ranks]
        return max(map(median, filter(None, times)), default=None)

    def timed_s(self, names: Sequence[str]) -> Floats:
        """Seconds of the log's own timers called ``names``, in each step that has timers."""
        if self.printed is None:
            return np.empty(0)
        spent = self.printed.sums(names, self.steps, float(np.max(self.times)))
        return spent[np.isfinite(spent)]

    def mean_timed_s(self, names: Sequence[str]) -> float:
        """Mean of `timed_s`; 0 without timers."""
        spent = self.timed_s(names)
        return float(np.mean(spent)) if len(spent) else 0.0

    @property
    def cores_counted(self) -> bool:
        """Whether the waits of the ranks for a core were recorded in each step."""
        return self.hosts is not None and all(rank.queued_s for rank in self.hosts.ranks)

    def host_s(self, name: str) -> dict[int, float]:
        """A time of host.json by rank: the median over the measured steps; empty if it
        was not recorded.
        """
        return {rank: median(values) for rank, values in self.steps_of_host(name).items()}

    def mean_host_s(self, name: str) -> dict[int, float]:
        """Mean over the measured steps of a time of host.json by rank, for what happens
        in few steps.
        """
        found = {}
        for rank, values in self.steps_of_host(name).items():
            found[rank] = float(np.mean(values))
        return found

    def steps_of_host(self, name: str) -> dict[int, list[float]]:
        """A time of host.json in the measured steps, else in all but the first, by the
        ranks that recorded it.
        """
        by_rank: dict[int, list[float]] = {}
        if self.hosts is None:
            return by_rank
        wanted = {int(step) for step in self.steps}
        for rank in self.hosts.ranks:
            values = getattr(rank, name)
            numbered = enumerate(values, self.hosts.first_step)
            own = [value for number, value in numbered if number in wanted] or list(values[1:])
            if own:
                by_rank[rank.rank] = own
        return by_rank


def alike(a: Evidence, b: Evidence) -> tuple[Evidence, Evidence]:
    """Return both, each with only those sources that both have, so that their parts are
    of the same kinds.
    """
    names = ("samples", "ceilings", "bound", "breakdown", "ranks", "hosts", "fingerprint")
    lacking: dict[str, Any] = {}
    for name in names:
        if getattr(a, name) is None or getattr(b, name) is None:
            lacking[name] = None
    if (a.breakdown is None) != (b.breakdown is None):
        lacking["fingerprint"] = None
    return replace(a, **lacking), replace(b, **lacking)
