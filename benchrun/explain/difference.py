"""Two runs beside each other: how much slower, what differs, where the seconds went."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchrun.explain.evidence import Evidence, alike
from benchrun.explain.model import Condition, Difference, PartDifference
from benchrun.explain.waterfall import waterfall
from benchrun.metrics.statistics import Interval, confidence_interval

SHOWN_SHARE = 0.001
"""Of the step: smaller differences of a part are left out."""
NOT_COMPARED = frozenset({"schema_version", "identity", "megatron", "cluster", "replaced_env", "image"})
"""Fields of a specification that follow from others, or have a line of their own."""


def difference(a: Evidence, b: Evidence) -> Difference:
    """The second run against the first, for as many tokens on a GPU."""
    scale = _tokens(a) / _tokens(b)
    return Difference(
        a=a.name,
        b=b.name,
        step_time_s=(float(np.median(a.times)), float(np.median(b.times))),
        ratio=scale * float(np.median(b.times)) / float(np.median(a.times)),
        interval=_interval(a, b, scale),
        differs=list(_differs(a, b)),
        parts=_parts(a, b, scale),
    )


def _tokens(run: Evidence) -> float:
    """Tokens of a step on one GPU."""
    return run.spec.tokens_per_step / run.spec.num_gpus


def _interval(a: Evidence, b: Evidence, scale: float) -> Interval | None:
    """Of the ratio: the ends of both medians' intervals, which is wider than needed."""
    one, other = confidence_interval(a.times), confidence_interval(b.times)
    if one is None or other is None:
        return None
    return Interval(
        low=scale * other.low / one.high,
        high=scale * other.high / one.low,
        level=min(one.level, other.level),
        effective_rows=min(one.effective_rows, other.effective_rows),
    )


def _parts(a: Evidence, b: Evidence, scale: float) -> list[PartDifference]:
    first, second = (_seconds(run) for run in alike(a, b))
    parts = [
        PartDifference(part=part, a=first.get(part, 0.0), b=scale * second.get(part, 0.0)) for part in first | second
    ]
    shown = [part for part in parts if abs(part.seconds) > SHOWN_SHARE * a.step_s]
    return sorted(shown, key=lambda part: -abs(part.seconds))


def _seconds(run: Evidence) -> dict[str, float]:
    return {part.part: part.seconds for part in waterfall(run)}


def _differs(a: Evidence, b: Evidence) -> Iterator[Condition]:
    """Every field of the two specifications that differs, and the state of the GPUs."""
    first, second = (dict(_flat(run.spec.model_dump(mode="json"))) for run in (a, b))
    for name in first | second:
        if name.partition(".")[0] not in NOT_COMPARED and first.get(name) != second.get(name):
            yield Condition(name=name, a=str(first.get(name)), b=str(second.get(name)))
    one, other = (run.samples.over_all.sm_clock_mhz if run.samples else None for run in (a, b))
    if one and other and one != other:
        yield Condition(name="clock (MHz)", a=f"{one:.0f}", b=f"{other:.0f}")


def _flat(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
