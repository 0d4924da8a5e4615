"""Two runs beside each other: how much slower, what differs, where the seconds went."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchrun.capabilities.explain.evidence import Evidence, alike
from benchrun.capabilities.explain.model import Condition, Difference, PartDifference
from benchrun.capabilities.explain.ratio import ratio_interval
from benchrun.capabilities.explain.waterfall import waterfall
from benchrun.measure.statistics import Floats
from benchrun.show.runs import NOT_COMPARED
from benchrun.vocabulary import by_path

SHOWN_SHARE = 0.001
"""Smallest difference of a part that is shown, as a share of the step."""
MODEL = "model."
"""Prefix of the conditions of a model."""


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


def sides_of(a: Evidence, b: Evidence) -> tuple[Side, Side]:
    """Two runs, with parts of the same kinds."""
    first, second = (_side(run) for run in alike(a, b))
    return first, second


def _side(run: Evidence) -> Side:
    tokens = run.spec.tokens_per_step / run.spec.num_gpus
    parts = {part.part: part.seconds for part in waterfall(run)}
    return Side(run.name, run.times, tokens, conditions(run), parts, _work(run))


def _work(run: Evidence) -> dict[str, Any]:
    """The model, except the longest sequence that it takes, and the task."""
    return {"model": run.spec.model.model_dump(exclude={"max_position_embeddings"}), "task": run.spec.task}


def difference(a: Side, b: Side) -> Difference:
    """The second against the first, for as many tokens on a GPU if both state them; else for a step."""
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
        other_work=tuple(name for name in a.work if name in b.work and a.work[name] != b.work[name]),
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
    """The conditions with different values; sizes of a model only if both sides state one."""
    names = dict.fromkeys([*a.conditions, *b.conditions])
    if not all(any(name.startswith(MODEL) for name in side.conditions) for side in (a, b)):
        names = dict.fromkeys(name for name in names if not name.startswith(MODEL))
    pairs = ((name, a.conditions.get(name), b.conditions.get(name)) for name in names)
    return [Condition(name=name, a=str(first), b=str(second)) for name, first, second in pairs if first != second]


def _parts(a: Side, b: Side, scale: float) -> list[PartDifference]:
    names = dict.fromkeys([*a.parts, *b.parts])
    parts = [PartDifference(part=name, a=a.parts.get(name, 0.0), b=scale * b.parts.get(name, 0.0)) for name in names]
    shown = [part for part in parts if abs(part.seconds) > SHOWN_SHARE * float(np.mean(a.times))]
    return sorted(shown, key=lambda part: -abs(part.seconds))


def conditions(run: Evidence) -> dict[str, Any]:
    """Every field of the specification, and the clock of the GPUs."""
    fields = dict(by_path(run.spec.model_dump(mode="json")))
    chosen = {name: value for name, value in fields.items() if name.partition(".")[0] not in NOT_COMPARED}
    clock = run.samples.over_all.sm_clock_mhz if run.samples else None
    return chosen | dict(run.machine) | {"clock (MHz)": clock}
