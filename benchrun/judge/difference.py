"""Two runs beside each other: how much slower, what differs, where the seconds went."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pydantic import Field

from benchrun.measure.ratio import distances, of_steps
from benchrun.measure.statistics import Floats, Interval, confidence_interval, spread
from benchrun.model import Frozen
from benchrun.vocabulary import Exit

NOTICEABLE = 0.02
"""Difference of a ratio from 1 that repeats show too (results/measured: 13 of 14 sets
of repeats).
"""
MEANS_DIFFER = 0.05
"""Relative distance between the ratio of means and that of medians from which some
steps of one run are stalls.
"""
WIDE = 1.1
"""Upper end of the ratio's interval above which equal medians are no answer."""
SHOWN_SHARE = 0.001
"""Smallest difference of a part that is shown, as a share of the step."""
MODEL = "model."
"""Prefix of the conditions of a model."""


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
    """Interval of the ratio, from the steps of both, without what repeats differ by;
    null for a single step.
    """
    method: str = ""
    """Method of the interval, and the number of steps."""
    noticeable: float = NOTICEABLE
    """A ratio that is nearer to 1 is no difference, however narrow the interval:
    repeats of a run differ by as much.
    """
    scale: float = 1.0
    """Factor of the parts of b, and of its step in the ratio: tokens of a step on a GPU
    of a over those of b.
    """
    same_tokens: bool = False
    """Whether the ratio is for as many tokens on a GPU; else it is that of the steps,
    as one states no tokens.
    """
    mean_ratio: float = 1.0
    """Ratio of the means, which stalls move and medians hide."""
    stated_by_one: tuple[str, ...] = ()
    """``model`` or the tokens of a step, if one log alone states them: nobody knows
    whether they are equal.
    """
    other_work: tuple[str, ...] = ()
    """``model`` or ``task`` if the runs train another one, so that their times cannot
    be compared.
    """
    unreliable: tuple[str, ...] = ()
    """Logs that have a fatal problem or end early, with the reason."""
    differs: list[Condition]
    parts: list[PartDifference]
    """Parts that differ, the largest difference first."""

    @property
    def other_step(self) -> bool:
        """Whether the steps have other numbers of tokens or other sequences, and the
        ratio is for the same tokens.
        """
        sequences = any(each.name == "seq_length" for each in self.differs)
        return self.same_tokens and (self.scale != 1 or sequences)

    @property
    def other_tokens(self) -> list[Condition]:
        """Conditions that make the tokens of a step differ if one log does not state
        them: then the ratio is of unequal steps.
        """
        sizes = (
            each
            for each in self.differs
            if each.name in ("seq_length", "global_batch_size", "num_gpus")
        )
        if self.same_tokens:
            return []
        return [each for each in sizes if "None" not in (each.a, each.b)]

    @property
    def uneven(self) -> bool:
        """Whether the means say otherwise than the medians, or the interval leaves more
        than a tenth open.
        """
        wide = (
            self.interval is not None
            and self.ratio < 1 + self.noticeable
            and self.interval.high > WIDE
        )
        return wide or abs(self.mean_ratio / self.ratio - 1) > MEANS_DIFFER

    @property
    def exit_code(self) -> Exit:
        """SLOW if b is noticeably slower, beyond the interval; INCONCLUSIVE if its
        steps do not show it, if the runs do other work or unequal steps, and if a log
        gives no number to rely on.
        """
        if (
            self.other_work
            or self.other_tokens
            or self.stated_by_one
            or self.interval is None
            or self.uneven
            or self.unreliable
        ):
            return Exit.INCONCLUSIVE
        if self.ratio < 1 + self.noticeable:
            return Exit.OK
        if self.interval.low > 1:
            return Exit.SLOW
        return Exit.INCONCLUSIVE


@dataclass(frozen=True)
class Side:
    """One of two runs or logs."""

    name: str
    times: Floats
    """Times of the measured steps, in s."""
    tokens: float | None
    """Tokens of a step on one GPU; None if unknown."""
    conditions: Mapping[str, Any]
    """Conditions that the run states about itself, by name."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a step by part."""
    work: Mapping[str, Any] = field(default_factory=dict)
    """Work that the run trains, by name; empty for a log, which does not state it."""
    unreliable: str | None = None
    """Reason why its number is none to rely on: a fatal problem, an early end."""


def difference(a: Side, b: Side) -> Difference:
    """The second against the first, for as many tokens on a GPU if both state them;
    else for a step.
    """
    scale = a.tokens / b.tokens if a.tokens and b.tokens else 1.0
    interval, method = ratio_interval(a.times, scale * b.times)
    return Difference(
        a=a.name,
        b=b.name,
        step_time_s=(float(np.median(a.times)), float(np.median(b.times))),
        ratio=scale * float(np.median(b.times)) / float(np.median(a.times)),
        interval=interval,
        method=method,
        scale=scale,
        same_tokens=bool(a.tokens and b.tokens),
        mean_ratio=scale * float(np.mean(b.times)) / float(np.mean(a.times)),
        other_work=tuple(
            name for name in a.work if name in b.work and a.work[name] != b.work[name]
        ),
        stated_by_one=_stated_by_one(a, b),
        unreliable=tuple(f"{side.name}: {side.unreliable}" for side in (a, b) if side.unreliable),
        differs=_differing(a, b),
        parts=_parts(a, b, scale),
    )


def _stated_by_one(a: Side, b: Side) -> tuple[str, ...]:
    """Return what decides whether the work is the same, and only one side states."""
    model = ("model",) if ("model" in a.work) is not ("model" in b.work) else ()
    tokens = ("tokens of a step",) if (a.tokens is None) is not (b.tokens is None) else ()
    return model + tokens


def _differing(a: Side, b: Side) -> list[Condition]:
    """The conditions with different values; sizes of a model only if both sides state
    one.
    """
    names = dict.fromkeys([*a.conditions, *b.conditions])
    if not all(any(name.startswith(MODEL) for name in side.conditions) for side in (a, b)):
        names = dict.fromkeys(name for name in names if not name.startswith(MODEL))
    pairs = ((name, a.conditions.get(name), b.conditions.get(name)) for name in names)
    chosen = []
    for name, first, second in pairs:
        if first != second:
            chosen.append(Condition(name=name, a=str(first), b=str(second)))
    return chosen


def _parts(a: Side, b: Side, scale: float) -> list[PartDifference]:
    names = dict.fromkeys([*a.parts, *b.parts])
    parts = []
    for name in names:
        parts.append(
            PartDifference(part=name, a=a.parts.get(name, 0.0), b=scale * b.parts.get(name, 0.0))
        )
    shown = []
    for part in parts:
        if abs(part.seconds) > SHOWN_SHARE * float(np.mean(a.times)):
            shown.append(part)
    return sorted(shown, key=lambda part: -abs(part.seconds))


def ratio_interval(a: Floats, b: Floats) -> tuple[Interval | None, str]:
    """95 % interval of the median of ``b`` over that of ``a``, and how it was computed;
    None for fewer than two steps.

    From six independent steps on it takes the intervals of both medians, which assume
    no distribution; of fewer it is Welch's, on the logarithms.
    """
    one, other = confidence_interval(a), confidence_interval(b)
    if one is None or other is None:
        return None, f"no interval: {len(a)} and {len(b)} steps"
    first, second = of_steps(spread(a), one), of_steps(spread(b), other)
    down, up = distances(first, second)
    ratio = float(np.median(b) / np.median(a))
    independent = one.effective_rows, other.effective_rows
    interval = Interval(
        low=ratio * math.exp(-down), high=ratio * math.exp(up), effective_rows=min(independent)
    )
    by_order = first.bounds and second.bounds
    way = "order of the steps, which assumes no distribution" if by_order else "Student's t"
    first_s, second_s = independent
    steps = f"{len(a)} and {len(b)} steps that tell as much as {first_s:.3g} and {second_s:.3g} independent"
    return interval, f"{steps}; {way}"
