"""Facts that a job states about itself in one line of its log: a framework's own log
may lack GPUs, batch or layout.
"""

from pydantic import ConfigDict

from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout, Size
from benchrun.vocabulary import Precision, Task

from .spec import TrainingSpec

LAUNCHED = "benchrun launched: "
"""Begins the line."""


class Launched(Frozen):
    """The conditions of a training. Keys of a later version are left out."""

    model_config = ConfigDict(extra="ignore")

    task: Task
    precision: Precision
    gpu: str
    num_gpus: Size
    seq_length: Size
    gbs: Size
    mbs: Size
    steps: Size
    """Planned optimizer steps."""
    layout: Layout = Layout()
    model: ModelShape


def launched_line(spec: TrainingSpec) -> str:
    """The line of the run ``spec``; values that are the default are left out."""
    stated = {}
    for name in Launched.model_fields:
        if name != "steps":
            stated[name] = getattr(spec, name)
    return LAUNCHED + Launched(**stated, steps=spec.planned_steps).model_dump_json(
        exclude_defaults=True
    )
