"""A curve over numbers of GPUs: its efficiency, its break, and the part of the step
that grew there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Scaling = Literal["weak", "strong"]
"""Kinds of scaling: the same batch per GPU, or the same global batch."""
LOSS = 0.05
"""A curve breaks where a doubling of the GPUs costs more than this share of the
speed."""


@dataclass(frozen=True)
class CurvePoint:
    """One number of GPUs on a curve."""

    num_gpus: int
    gbs: float
    step_s: float
    parts: Mapping[str, float]
    """Seconds; empty if they are not known."""
    low_s: float | None = None
    """Lower end of the interval of a predicted step; None of a measured one."""
    high_s: float | None = None
    """Upper end."""


@dataclass(frozen=True)
class Break:
    """The first step of a curve that costs much speed."""

    num_gpus: int
    """GPUs of the point that is slower than those before let expect."""
    lost_s: float
    """Seconds of its step more than at the speed of the point before."""
    grew: Mapping[str, float]
    """Seconds by part: those that grew, the one that grew most first."""

    @property
    def sentence(self) -> str:
        """One line for a person."""
        parts = ", ".join(
            f"{name} {seconds:+.3g} s" for name, seconds in list(self.grew.items())[:2]
        )
        why = f", of which {parts}" if parts else ""
        more = f"a step takes {self.lost_s:.3g} s more than with the efficiency of the size before"
        return f"breaks at {self.num_gpus} GPUs: {more}{why}"

    def document(self) -> dict[str, Any]:
        """Document for JSON."""
        return {"num_gpus": self.num_gpus, "lost_s": self.lost_s, "grew_s": dict(self.grew)}


def efficiencies(points: Sequence[CurvePoint]) -> list[float]:
    """Speed per GPU of each point over that of the first."""
    rates = [point.gbs / point.num_gpus / point.step_s for point in points]
    return [rate / rates[0] for rate in rates]


def breaks(points: Sequence[CurvePoint]) -> Break | None:
    """The first point that loses more than `LOSS` a doubling; None if there is
    none."""
    shares = efficiencies(points)
    for (before, point), (share, new) in zip(pairwise(points), pairwise(shares), strict=True):
        if new / share < (1 - LOSS) ** math.log2(point.num_gpus / before.num_gpus):
            return _break(before, point)
    return None


def _break(before: CurvePoint, point: CurvePoint) -> Break:
    # Sequences of a GPU over those before; 1 on a weak curve.
    work = (point.gbs / point.num_gpus) / (before.gbs / before.num_gpus)
    more = []
    for name, seconds in point.parts.items():
        if name in before.parts:
            more.append((seconds - before.parts[name] * work, name))
    more.sort(key=lambda pair: -pair[0])
    grew = {name: seconds for seconds, name in more if seconds > 0}
    return Break(point.num_gpus, point.step_s - before.step_s * work, grew)
