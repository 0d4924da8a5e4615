"""The DeepSpeed engine's own lines, beside those of the program that uses it: they
count if nothing else is found.

    [timer.py:264:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=3.7, CurrSamplesPerSec=3.8, ...
    steps: 1 loss: 12.4023 iter time (s): 15.988 samples/sec: 0.250                                  (pipeline engine)

Samples per second are those of all ranks together; a step is one of the optimizer.
Source: deepspeedai/DeepSpeed deepspeed/utils/timer.py and
deepspeed/runtime/pipe/engine.py, and logs.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from benchrun.logs.dialect import DECIMAL, Dialect, Record, Table, groups, positive

_PIPE = re.compile(
    r"\bsteps: (?P<step>\d{1,15}) loss: (?P<loss>\S+) (?:[\w ]{1,40}: \S+ ){0,9}"
    r"iter time \(s\): (?P<step_time_s>\d+\.\d+) samples/sec: \d"
)
_TIMER = re.compile(
    r"(?:\bglobal_step=|\] \d+/)(?P<step>\d{1,15}), RunningAvgSamplesPerSec=[\d.]+, "
    r"CurrSamplesPerSec=(?P<samples_per_s>\d+\.?\d*),"
)
LAUNCHED = re.compile(r"\bdist_world_size=(?P<num_gpus>\d{1,7})\b")
"""The number of processes, each with a GPU of its own, as DeepSpeed's launcher prints
it on every node.
"""


class DeepSpeed(Dialect):
    """DeepSpeed's timer and its pipeline engine."""

    name = "deepspeed"
    step_needles = (b" iter time (s): ", b"CurrSamplesPerSec=")
    fact_needles = (
        *(b"train_batch_size ...", b"train_micro_batch_size_per_gpu ..."),
        *(b'"train_batch_size": ', b'"train_micro_batch_size_per_gpu": ', b"dist_world_size="),
    )
    fact_groups = (
        LAUNCHED,
        re.compile(r"\"train_batch_size\": (?P<gbs>\d{1,9})(?=[,\s]|$)"),
        re.compile(r"\"train_micro_batch_size_per_gpu\": (?P<mbs>\d{1,9})(?=[,\s]|$)"),
        re.compile(r"\btrain_batch_size \.{3,} (?P<gbs>\d{1,9})(?=\s|$)"),
        re.compile(r"\btrain_micro_batch_size_per_gpu \.{3,} (?P<mbs>\d{1,9})(?=\s|$)"),
    )
    strong = False
    program = "megatron-lm"

    def records(self, text: str) -> Iterator[Record]:
        """The pipeline engine's step, else the timer's."""
        if match := _PIPE.search(text):
            yield Record(groups(match, step_time_s=DECIMAL))
        elif (match := _TIMER.search(text)) and positive(match["samples_per_s"]):
            yield Record(groups(match, samples_per_s=DECIMAL), needs="step")

    def complete(self, values: dict[str, Any]) -> None:
        """Compute the step time from samples per second if the log has stated its
        batch.
        """
        if (batch := self.facts.gbs) and "samples_per_s" in values:
            rate = values.pop("samples_per_s")
            values |= {"step_time_s": batch / rate, "global_batch_size": batch}

    def take(self, tables: Sequence[Table]) -> bool:
        """Lines of one of the two kinds."""
        both = any({"samples_per_s", "step_time_s"} <= table.columns.keys() for table in tables)
        return not both and super().take(tables)
