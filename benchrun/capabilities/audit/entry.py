"""Jobs as their logs and the accounting show them together, and kinds of jobs: those that
do the same work in the same way, and may be compared.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from benchrun import extensions
from benchrun.logs.records import Facts
from benchrun.measure.setting import Setting
from benchrun.model import ModelShape
from benchrun.usecases.expectations import expected_step
from benchrun.usecases.settings import training_of
from benchrun.vocabulary import DEGREES

from .accounting import Allocation, without_ids
from .model import Expected
from .reading import Reading

NEEDED = ("model", "precision", "seq_length", "gbs")
"""Facts without which only jobs of one name are compared."""
DIMENSIONS = ("num_layers", "hidden_size", "num_query_groups", "moe")
"""Fields of a model by which it is found in the list of models."""


@dataclass(frozen=True)
class Kind:
    """Conditions that decide the step time of a healthy job."""

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
        job = without_ids(row.name) if row else ""
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


def predicted(reading: Reading, setting: Setting) -> Expected | str:
    """The predicted step time of a job, or why there is none."""
    needed = {"gpu": setting.gpu, "num_gpus": setting.num_gpus}
    needed |= {name: getattr(setting, name) for name in NEEDED}
    if unknown := [name.replace("_", " ") for name, value in needed.items() if not value]:
        return f"neither log nor accounting states {', '.join(unknown)}"
    if setting.unknown_options:
        return f"the log sets {', '.join(map(str, setting.unknown_options))}"
    facts = Facts(**{name: reading.facts[name] for name in ("mbs", *DEGREES)})
    spec = training_of(reading.framework, facts, setting)
    recipe = model_name(setting.model) if setting.model else ""
    try:
        one = expected_step(spec.model_copy(update={"recipe": recipe, "data_format": "packed"}))
    except (ArithmeticError, ValueError):
        return "no prediction knows its layout"
    if one is None:
        return "no prediction knows it"
    return Expected(median=one.median, low=one.low, high=one.high, source="prediction")


@dataclass(frozen=True, eq=False)
class Entry:
    """One job."""

    job_id: str | None
    reading: Reading | None
    rows: Sequence[Allocation]
    kind: Kind | None
    setting: Setting

    @property
    def name(self) -> str:
        """Its id, or its log's name."""
        if self.job_id:
            return f"job {self.job_id}"
        return self.reading.log if self.reading else "?"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes on which its steps were measured."""
        if self.rows:
            return self.rows[-1].nodes
        return self.reading.nodes if self.reading else ()

    @property
    def num_gpus(self) -> int | None:
        """GPUs that it had."""
        allocated = self.rows[-1].num_gpus if self.rows else None
        return allocated or self.setting.num_gpus

    @property
    def start(self) -> float | None:
        """Its start, or else its first step; in s since 1970."""
        if self.rows:
            return self.rows[0].start
        return self.reading.began if self.reading else None

    @property
    def seconds(self) -> float | None:
        """Time that it had its nodes; None if no accounting tells."""
        ended = [row.seconds for row in self.rows if row.seconds is not None]
        return sum(ended) if ended else None

    @property
    def end(self) -> float | None:
        """Its end."""
        if self.rows:
            return self.rows[-1].end
        return None if self.start is None else self.start + self.steps_s

    @property
    def steps_s(self) -> float:
        """Time of all steps and checkpoints."""
        reading = self.reading
        if reading is None:
            return 0.0
        return float(reading.seconds.sum()) + reading.repeated_s + reading.checkpoint_s

    def at(self, row: int) -> float | None:
        """Date at which the steps of a row begin; of the first one the job's start."""
        reading, start = self.reading, self.start
        if start is None or reading is None or not row:
            return start
        first = start + max((self.seconds or 0.0) - self.steps_s, 0.0)
        if reading.began is not None and start <= reading.began <= (self.end or reading.began):
            first = reading.began - float(reading.seconds[0])
        return first + float(reading.seconds[:row].sum())

    @property
    def gpu_hours(self) -> float | None:
        """GPUs times hours; by its steps if no accounting tells; None for unknown GPUs."""
        seconds = self.seconds or self.steps_s
        return seconds * self.num_gpus / 3600 if self.num_gpus else None

    @property
    def state(self) -> str | None:
        """Slurm's word for its end, or what the log shows."""
        if self.rows:
            return self.rows[-1].state
        if self.reading is None or self.reading.complete:
            return "COMPLETED"
        return "FAILED" if self.reading.problem else None


def entry_of(reading: Reading | None, rows: Sequence[Allocation]) -> Entry:
    """A job of its log, its allocations, or both."""
    if reading is None:
        return Entry(rows[-1].job_id, None, rows, None, completed(Setting(), rows[-1]))
    kind, setting = kind_of(reading, rows[-1] if rows else None)
    return Entry(reading.job_id, reading, rows, kind, setting)


def date_text(seconds: float | None) -> str | None:
    """A local time as sacct prints it."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
