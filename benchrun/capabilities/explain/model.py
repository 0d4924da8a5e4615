"""The documents of an explanation and of a difference."""

from typing import Literal

from pydantic import Field

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
NOTICEABLE = 0.02
"""Difference of a ratio from 1 that repeats show too (results/measured: 13 of 14 sets of repeats).
"""
MEANS_DIFFER = 0.05
"""Relative distance between the ratio of means and that of medians from which some steps of one run
are stalls.
"""
WIDE = 1.1
"""Upper end of the ratio's interval above which equal medians are no answer."""
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


class Cause(Frozen):
    """Reason why the step is longer than it could be."""

    cause: Name
    kind: Literal["fault", "choice"]
    """``fault``: other ranks, steps or nodes, or the ceilings, show that the same work can be faster; ``choice``: what
    the recipe or the layout costs."""
    seconds: float
    """Seconds of a step that a cure would save."""
    rank: int | None = None
    """The rank that has it; null if all have."""
    host: str | None = None
    """Node of that rank."""
    since_step: int | None = None
    """First step that has it; null if it is there from the first measured step on."""
    evidence: str
    """Evidence, in numbers."""
    advice: str
    """Change that would help."""


class Against(Frozen):
    """Run or number with which the explained run was compared."""

    name: str
    """A run, or the id of a published number."""
    step_time_s: float
    """Its step, for this run's number of tokens on a GPU."""
    ratio: float
    """This run's step over that one's."""


class Explanation(Frozen):
    """Explanation of a step's time. The parts add up to the step."""

    schema_version: Literal[1] = 1
    run: str
    """Name of the run."""
    step_time_s: float
    """Mean over the measured steps, slow ones included."""
    waterfall: list[Part]
    causes: list[Cause]
    """Faults of 3 % of the step and more first, then by the seconds that a cure would save."""
    against: Against | None = None
    missing: list[str]
    """Data that would make the explanation sharper."""

    @property
    def exit_code(self) -> Exit:
        """SLOW with a fault that costs `FAULT_SHARE` of the step and more; smaller ones are usual."""
        least = FAULT_SHARE * self.step_time_s
        faulty = any(cause.kind == "fault" and cause.seconds >= least for cause in self.causes)
        return Exit.SLOW if faulty else Exit.OK


class Condition(Frozen):
    """Something in which two runs differ."""

    name: str
    a: str
    b: str


class PartDifference(Frozen):
    """One part of two steps, in s."""

    part: str
    a: float
    b: float

    @property
    def seconds(self) -> float:
        """Seconds by which the second run takes longer."""
        return self.b - self.a


class Difference(Frozen):
    """Two runs: the second against the first."""

    schema_version: Literal[1] = 1
    a: str
    b: str
    step_time_s: tuple[float, float]
    """Median step times of a and b."""
    ratio: float
    """Time of b over time of a for as many tokens on a GPU: above 1, b is slower."""
    interval: Interval | None = Field(default=None)
    """Interval of the ratio, from the steps of both, without what repeats differ by; null for a
    single step.
    """
    method: str = ""
    """Method of the interval, and the number of steps."""
    noticeable: float = NOTICEABLE
    """A ratio that is nearer to 1 is no difference, however narrow the interval: repeats of a run differ by as much."""
    scale: float = 1.0
    """Factor of the parts of b, and of its step in the ratio: tokens of a step on a GPU of a over those of b."""
    same_tokens: bool = False
    """Whether the ratio is for as many tokens on a GPU; else it is that of the steps, as one states no tokens."""
    mean_ratio: float = 1.0
    """Ratio of the means, which stalls move and medians hide."""
    stated_by_one: tuple[str, ...] = ()
    """``model`` or the tokens of a step, if one log alone states them: nobody knows whether they are equal."""
    other_work: tuple[str, ...] = ()
    """``model`` or ``task`` if the runs train another one, so that their times cannot be compared."""
    unreliable: tuple[str, ...] = ()
    """Logs that have a fatal problem or end early, with the reason."""
    differs: list[Condition]
    parts: list[PartDifference]
    """Parts that differ, the largest difference first."""

    @property
    def other_step(self) -> bool:
        """Whether the steps have other numbers of tokens or other sequences, and the ratio is for the same tokens."""
        sequences = any(each.name == "seq_length" for each in self.differs)
        return self.same_tokens and (self.scale != 1 or sequences)

    @property
    def other_tokens(self) -> list[Condition]:
        """Conditions that make the tokens of a step differ if one log does not state them: then the
        ratio is of unequal steps.
        """
        sizes = (each for each in self.differs if each.name in ("seq_length", "global_batch_size", "num_gpus"))
        return [] if self.same_tokens else [each for each in sizes if "None" not in (each.a, each.b)]

    @property
    def uneven(self) -> bool:
        """Whether the means say otherwise than the medians, or the interval leaves more than a tenth open."""
        wide = self.interval is not None and self.ratio < 1 + self.noticeable and self.interval.high > WIDE
        return wide or abs(self.mean_ratio / self.ratio - 1) > MEANS_DIFFER

    @property
    def exit_code(self) -> Exit:
        """SLOW if b is noticeably slower, beyond the interval; INCONCLUSIVE if its steps do not show it, if
        the runs do other work or unequal steps, and if a log that is not slower is no number to rely on."""
        if self.other_work or self.other_tokens or self.stated_by_one or self.interval is None or self.uneven:
            return Exit.INCONCLUSIVE
        if self.ratio < 1 + self.noticeable:
            return Exit.INCONCLUSIVE if self.unreliable else Exit.OK
        return Exit.SLOW if self.interval.low > 1 else Exit.INCONCLUSIVE
