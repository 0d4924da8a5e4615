"""The DeepSpeed engine's own lines, beside those of what drives it: they count where nothing else is found.

    [timer.py:264:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=3.7, CurrSamplesPerSec=3.8, ...
    steps: 1 loss: 12.4023 iter time (s): 15.988 samples/sec: 0.250                                  (pipeline engine)

Samples a second are those of all ranks together; a step is one of the optimizer. Source: deepspeedai/DeepSpeed
deepspeed/utils/timer.py and deepspeed/runtime/pipe/engine.py, and logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from benchrun.parse.dialect import COUNT, DECIMAL, Dialect, Record, Table, Value, positive
from benchrun.parse.lines import Line

_PIPE = re.compile(
    r"\bsteps: (\d{1,15}) loss: (\S+) (?:[\w ]{1,40}: \S+ ){0,9}iter time \(s\): (\d+\.\d+) samples/sec: \d"
)
_TIMER = re.compile(
    r"(?:\bglobal_step=|\] \d+/)(\d{1,15}), RunningAvgSamplesPerSec=[\d.]+, CurrSamplesPerSec=(\d+\.?\d*),"
)
_BATCH = re.compile(r"\btrain_batch_size \.{3,} (\d{1,9})(?=\s|$)")
_MICRO = re.compile(r"\btrain_micro_batch_size_per_gpu \.{3,} (\d{1,9})(?=\s|$)")


class DeepSpeed(Dialect):
    """DeepSpeed's timer and its pipeline engine."""

    name = "deepspeed"
    step_needles = (b" iter time (s): ", b"CurrSamplesPerSec=")
    fact_needles = (b"train_batch_size ...", b"train_micro_batch_size_per_gpu ...")
    strong = False

    def read(self, line: Line) -> None:
        """A step line of either form, or the batch that turns samples a second into a time."""
        if not self.whole(line):
            return
        if match := _BATCH.search(line.text):
            self.facts.gbs = int(match[1]) or None
        elif match := _MICRO.search(line.text):
            self.facts.mbs = int(match[1])
        else:
            super().read(line)

    def records(self, text: str) -> Iterator[Record]:
        """The pipeline engine's step, else the timer's."""
        if match := _PIPE.search(text):
            yield Record(
                [
                    Value("step", match[1], match.start(1), COUNT),
                    Value("loss", match[2], match.start(2)),
                    Value("step_time_s", match[3], match.start(3), DECIMAL),
                ]
            )
        elif (match := _TIMER.search(text)) and positive(match[2]):
            step = Value("step", match[1], match.start(1), COUNT)
            yield Record([step, Value("samples_per_s", match[2], match.start(2), DECIMAL)], needs="step")

    def complete(self, values: dict[str, Any]) -> None:
        """A time instead of the samples a second."""
        rate, batch = values.pop("samples_per_s", None), self.facts.gbs
        if rate is not None and batch:
            values |= {"step_time_s": batch / rate, "global_batch_size": batch}

    def take(self, tables: Sequence[Table]) -> bool:
        """Lines of one of the two kinds."""
        both = any({"samples_per_s", "step_time_s"} <= table.columns.keys() for table in tables)
        return not both and super().take(tables)
