"""The document of an explanation."""

from typing import Literal

from benchrun.judge.difference import NOTICEABLE
from benchrun.measure.statistics import Interval
from benchrun.model import Frozen
from benchrun.vocabulary import Exit

UNSEPARATED = "not separated"
"""Prefix of the part that could not be split further."""
Name = Literal[
    "slow_rank",
    "slow_node",
    "data",
    "host",
    "comm_bandwidth",
    "exposed_tp",
    "exposed_cp",
    "exposed_ep",
    "exposed_dp",
    "bubble",
    "imbalance",
    "matmul",
    "attention",
    "memory_bound",
    "recompute",
    "clocks",
    "power",
    "jitter",
    "checkpoint",
    "unknown",
]
DIGITS = 6
"""Decimal places of the seconds in a document."""
FAULT_SHARE = 0.03
"""Share of the step from which on faults come first."""


class Part(Frozen):
    """One part of the step, from the GPU's peak downwards."""

    part: str
    seconds: float
    cause: Name | None = None
    """Cause that the part belongs to; null for what has to be done at any speed."""
    evidence: str
    """Source from which the part was computed."""


class Saving(Frozen):
    """Seconds of a step that a cure saves."""

    median: float
    low: float
    """Lower end of the 90 % interval."""
    high: float


class Cure(Frozen):
    """Change that would help."""

    advice: str
    saving_s: Saving | None = None
    """Seconds that a run with this change would save; repeats of a run differ too, so that the
    least may be below zero. Null if no record says how much of the cause it takes away.
    """


class Cause(Frozen):
    """Reason why the step is longer than it could be."""

    cause: Name
    kind: Literal["fault", "choice"]
    """``fault``: other ranks, steps or nodes, or the ceilings, show that the same work
    can be faster; ``choice``: what the recipe or the layout costs.
    """
    seconds: float
    """Seconds of a step that a cure would save, before kernels without gaps become slower."""
    saving_s: Saving | None = None
    """Those seconds with their interval; null if nothing is to mend or to be seen."""
    rank: int | None = None
    """The rank that has it; null if all have."""
    host: str | None = None
    """Node of that rank."""
    since_step: int | None = None
    """First step that has it; null if it is there from the first measured step on."""
    evidence: str
    """Evidence, in numbers."""
    advice: str
    """Changes that would help."""
    cures: tuple[Cure, ...] = ()
    """Changes of ``advice``, each with its saving."""


class Against(Frozen):
    """Run or number with which the explained run was compared."""

    name: str
    """A run, or the id of a published number."""
    step_time_s: float
    """Its median step, for this run's number of tokens on a GPU."""
    ratio: float
    """This run's median step over that one's, as `diff` has it."""
    interval: Interval | None = None
    """Interval of the ratio; null for a published number and for a single step."""

    @property
    def longer(self) -> bool:
        """Whether this run's step is clearly longer, as `diff` judges it."""
        return self.interval is not None and self.interval.low > 1 and self.ratio >= 1 + NOTICEABLE


class Stretch(Frozen):
    """Steps in a row of one speed."""

    first_step: int
    last_step: int
    step_time_s: float
    """Median step."""
    cause: Name | None = None
    """Cause that makes it slower than the others; null for the usual speed, and where
    nothing shows one.
    """


class Explanation(Frozen):
    """Explanation of a step's time. The parts add up to the step."""

    schema_version: Literal[1] = 1
    run: str
    """Name of the run."""
    step_time_s: float
    """Mean over the measured steps, slow ones included."""
    waterfall: list[Part]
    causes: list[Cause]
    """Faults of 3 % of the step and more first, then by the seconds that a cure would
    save.
    """
    stretches: tuple[Stretch, ...] = ()
    """The run, split where its speed changes for long; empty if it does not."""
    against: Against | None = None
    hang: None = None
    """A run that hangs has no explanation of its step: see `hung.Hung`."""
    missing: list[str]
    """Data that would make the explanation sharper."""

    @property
    def exit_code(self) -> Exit:
        """SLOW with a fault that costs `FAULT_SHARE` of the step and more, smaller ones are
        usual; or if the step is clearly longer by as much than that of the other run.
        """
        if self.against and self.against.longer and self.against.ratio >= 1 + FAULT_SHARE:
            return Exit.SLOW
        least = FAULT_SHARE * self.step_time_s
        faulty = any(cause.kind == "fault" and cause.seconds >= least for cause in self.causes)
        if faulty:
            return Exit.SLOW
        return Exit.OK
