"""Kinds of jobs: those that do the same work in the same way, and may be compared."""

import functools
import re
from dataclasses import dataclass, replace
from typing import Any

from benchrun import extensions
from benchrun.logs.records import Facts
from benchrun.measure.setting import Setting
from benchrun.model import ModelShape
from benchrun.usecases.expectations import expected_step
from benchrun.usecases.settings import training_of
from benchrun.vocabulary import DEGREES

from .accounting import Allocation
from .model import Expected
from .reading import Reading

NEEDED = ("model", "precision", "seq_length", "gbs")
"""Facts without which only jobs of one name are compared."""
DIMENSIONS = ("num_layers", "hidden_size", "num_query_groups", "moe")
"""Fields of a model by which it is found in the list of models."""


@dataclass(frozen=True)
class Kind:
    """What decides the step time of a healthy job."""

    model: str | None
    work: tuple[tuple[str, Any], ...]
    """Facts of the work: jobs that share them could run in the same time."""
    way: tuple[tuple[str, Any], ...]
    """Facts of the layout and the software."""
    unknown: tuple[str, ...]
    """Facts that the log does not state."""

    @property
    def says(self) -> str:
        """The layout and the software in words."""
        parts = []
        for name, value in self.way:
            if value not in (None, 1, (), False):
                parts.append(f"{name.replace('_', ' ')} {value}")
        return ", ".join(parts)


def kind_of(reading: Reading, row: Allocation | None) -> tuple[Kind, Setting]:
    """The kind of a job, and its setting, completed by the accounting."""
    setting = completed(reading.setting, row)
    unknown = tuple(name for name in NEEDED if not getattr(setting, name))
    name = None
    if unknown:
        job = re.sub(r"[-_.]?\d{3,}", "", row.name) if row else ""
        name = " ".join(filter(None, (job, reading.name)))
    model = setting.model
    work: dict[str, Any] = {
        "model": model.model_dump_json(exclude_defaults=True) if model else None,
        "name": name,
        "nodes": len(row.nodes if row else reading.nodes),
    }
    for field in ("task", "gpu", "num_gpus", "precision", "seq_length", "gbs", "unknown_options"):
        work[field] = getattr(setting, field)
    way = {"framework": reading.framework, **reading.facts}
    label = model_name(model) if model else name
    return Kind(label, tuple(work.items()), tuple(way.items()), unknown), setting


def completed(setting: Setting, row: Allocation | None) -> Setting:
    """The setting with the GPUs of the accounting, if the log names none."""
    if row is None:
        return setting
    return replace(setting, gpu=setting.gpu or row.gpu, num_gpus=setting.num_gpus or row.num_gpus)


@functools.cache
def model_name(model: ModelShape) -> str:
    """The name of the model in the list, or its size."""
    dimensions = [getattr(model, name) for name in DIMENSIONS]
    if extensions.has("predict"):
        for name, known in extensions.capability("predict.workload", "architectures")().items():
            if [getattr(known.shape, field) for field in DIMENSIONS] == dimensions:
                return str(name)
    return f"{model.num_layers} layers of {model.hidden_size}"


def predicted(reading: Reading, setting: Setting) -> Expected | None:
    """The predicted step time of a job; None if its log does not state enough."""
    needed = (setting.gpu, setting.num_gpus, *(getattr(setting, name) for name in NEEDED))
    if not all(needed) or setting.unknown_options:
        return None
    facts = Facts(**{name: reading.facts[name] for name in ("mbs", *DEGREES)})
    spec = training_of(reading.framework, facts, setting)
    recipe = model_name(setting.model) if setting.model else ""
    try:
        one = expected_step(spec.model_copy(update={"recipe": recipe, "data_format": "packed"}))
    except (ArithmeticError, ValueError):
        return None  # a layout that no prediction knows
    if one is None:
        return None
    return Expected(median=one.median, low=one.low, high=one.high, source="prediction")
