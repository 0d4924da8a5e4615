r"""A log of any program, read by the regular expression that its job states in it.

benchrun command: {"step_line":"step (?P<step>\\d+) took (?P<step_time_s>[\\d.]+) s", ...}
step 1 took 0.52 s
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from benchrun.logs.dialect import (
    COUNT,
    NUMBER,
    STATED_LOSS,
    THOUSANDTHS,
    Dialect,
    Reading,
    Record,
    Value,
    headed,
)
from benchrun.runspec.command import STATED, Stated, fixed_text

COLUMNS: dict[str, tuple[str, Reading]] = {
    "step": ("step", COUNT),
    "step_time_ms": ("step_time_s", THOUSANDTHS),
    "tokens_per_s": ("tokens_per_s_per_gpu", NUMBER),
    "loss": ("loss", STATED_LOSS),
    "global_batch_size": ("global_batch_size", COUNT),
}
"""Group -> column and reading, if it is no number of its own column."""
CLOCKS = ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")


class Command(Dialect):
    """Reads no step before the log has stated its expression."""

    name = "command"
    step_needles = (STATED.encode(),)
    fact_needles = (STATED.encode(),)
    announcement = STATED
    averages = ("rows",)
    columns: ClassVar[dict[str, tuple[str, Reading]]] = COLUMNS

    @classmethod
    def reader_for(cls, text: str) -> "type[Dialect] | None":
        """The reader of logs that state themselves by ``text``; None for a line that is
        cut."""
        stated = Stated.read(text)
        return _reader(stated) if stated else None

    def records(self, text: str) -> Iterator[Record]:
        """The steps of a line."""
        if self.head is None or STATED in text:
            return
        for match, _ in headed(self.head, text):
            values = []
            for group, value in match.groupdict().items():
                if value is not None:
                    column, reading = self.columns.get(group, (group, NUMBER))
                    values.append(Value(column, value, match.start(group), reading))
            clocks = [name for name in CLOCKS if any(each.column == name for each in values)]
            yield Record(values, needs=clocks[0] if clocks else "step_time_s")

    def complete(self, values: dict[str, Any]) -> None:
        """Some programs count their steps from 0."""
        if np.min(values["step"]) == 0:
            self.first_number = 0

    def read_facts(self, text: str) -> None:
        """What the job states of its run."""
        if (stated := Stated.read(text)) is None:
            return
        facts = self.facts
        facts.num_gpus, facts.planned_steps = stated.num_gpus, stated.steps
        facts.gbs, facts.seq_length = stated.gbs, stated.seq_length
        facts.shape, facts.precision = stated.model, stated.precision
        facts.device = "cpu" if stated.gpu == "CPU" else stated.gpu


@functools.lru_cache(maxsize=64)
def _reader(stated: Stated) -> type[Command]:
    """The dialect of one expression."""
    words = fixed_text(stated.step_line).encode()
    per_gpu = Reading(scale=lambda value: value / stated.num_gpus)
    return type(
        "Command",
        (Command,),
        {
            "head": re.compile(stated.step_line),
            "step_needles": (words,),
            "columns": {**COLUMNS, "tokens_per_s": ("tokens_per_s_per_gpu", per_gpu)},
        },
    )
