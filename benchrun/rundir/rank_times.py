"""ranks.json and host.json: what each rank measured in each step."""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from benchrun.model import Frozen

from .artifacts import File

KEPT_STEPS = 200
"""The last steps of ranks.json and host.json: enough for a median, and 4096 ranks still
fit into a file.
"""


class RankTime(Frozen, allow_inf_nan=False):
    """Seconds that one rank computed, and that it was in collectives, in each step of
    `RankTimes.steps`.
    """

    rank: NonNegativeInt
    """Number of the rank."""
    host: str
    """Its node."""
    stage: NonNegativeInt = 0
    """Its pipeline stage: only ranks of one stage do the same work."""
    compute_time_s: tuple[NonNegativeFloat, ...]
    """The step without its collectives: kernels, gaps between them, waiting for data.
    """
    collective_time_s: tuple[NonNegativeFloat, ...]
    """Time in collectives that no kernel hides, with waiting for slower ranks."""


class RankTimes(File):
    """ranks.json."""

    steps: tuple[PositiveInt, ...]
    """Numbers of the measured steps: the last 200; every tenth if a step has more than
    500 collectives.
    """
    ranks: tuple[RankTime, ...]
    """Every rank, in order."""

    @model_validator(mode="after")
    def _one_time_a_step(self) -> "RankTimes":
        for rank in self.ranks:
            # Without collectives where only a log's timers are known.
            for times in (rank.compute_time_s, rank.collective_time_s or rank.compute_time_s):
                if len(times) != len(self.steps):
                    raise ValueError(
                        f"rank {rank.rank} has {len(times)} times for {len(self.steps)} steps"
                    )
        return self


class HostTime(Frozen, allow_inf_nan=False):
    """Seconds that the host of one rank spent in each step on other things: the most
    that the step may have lost by it.
    """

    rank: NonNegativeInt
    """Number of the rank."""
    host: str
    """Its node."""
    cores: str
    """Cores on which its process may run, e.g. ``0-3,8``."""
    bound: bool
    """Whether the rank may use only some cores of the node."""
    data_s: tuple[NonNegativeFloat, ...]
    """Waiting for the data loader."""
    garbage_s: tuple[NonNegativeFloat, ...]
    """Collecting Python's garbage."""
    queued_s: tuple[NonNegativeFloat, ...]
    """Waiting for a core, all threads together; empty if the system does not count it.
    """
    between_s: tuple[NonNegativeFloat, ...] = ()
    """Seconds between the end of the step before and the begin of this one: logging,
    saving.

    Older runs lack them.
    """


class HostTimes(File):
    """host.json."""

    first_step: PositiveInt
    """The step of the first value; the last 200 steps are written."""
    ranks: tuple[HostTime, ...]
    """Every rank, in order."""
