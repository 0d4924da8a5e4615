"""Facts that a job states about itself in one line of its log: a framework's own log
may lack GPUs, batch or layout.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ConfigDict

from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout, Size
from benchrun.vocabulary import Precision, Task

if TYPE_CHECKING:
    from typing_extensions import Self

LAUNCHED = "benchrun launched: "
"""Begins the line."""


class Statement(Frozen):
    """What a job says of its run before the first step."""

    begins: ClassVar[str]

    @classmethod
    def line(cls, spec: Any) -> str:
        """The line of the run ``spec``; values that are the default are left out."""
        stated = {"steps": spec.planned_steps}
        for name in cls.model_fields:
            if name != "steps":
                stated[name] = getattr(spec, name)
        return cls.begins + cls(**stated).model_dump_json(exclude_defaults=True)

    @classmethod
    def read(cls, text: str) -> "Self | None":
        """Read what a line states; None for one that is cut."""
        with suppress(ValueError):
            return cls.model_validate_json(text.partition(cls.begins)[2].strip())
        return None


class Launched(Statement):
    """The conditions of a training. Keys of a later version are left out."""

    model_config = ConfigDict(extra="ignore")
    begins = LAUNCHED

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
