"""The DeepSpeed engine's own lines, beside those of what drives it: they count where nothing else is found.

    [timer.py:264:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=3.7, CurrSamplesPerSec=3.8, ...
    steps: 1 loss: 12.4023 iter time (s): 15.988 samples/sec: 0.250                                  (pipeline engine)

Samples a second are those of all ranks together; a step is one of the optimizer. Source: deepspeedai/DeepSpeed
deepspeed/utils/timer.py and deepspeed/runtime/pipe/engine.py, and logs.
"""

from __future__ import annotations

import re

from benchrun.parse.dialect import Dialect, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.records import Step

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
    one_line = True

    def read(self, line: Line) -> None:
        """A step line of either form, or the batch that turns samples a second into a time."""
        if not self.whole(line):
            return
        facts = self.facts
        if match := _BATCH.search(line.text):
            facts.global_batch_size = int(match[1]) or None
        elif match := _MICRO.search(line.text):
            facts.micro_batch_size = int(match[1])
        elif match := _PIPE.search(line.text):
            time_s = positive(match[3])
            if time_s is not None:
                self.rows.add(Step(int(match[1]), time_s, line.number, loss=number(match[2])))
        elif (match := _TIMER.search(line.text)) and (rate := positive(match[2])):
            batch = facts.global_batch_size
            self.rows.add(Step(int(match[1]), batch / rate if batch else None, line.number, global_batch_size=batch))
