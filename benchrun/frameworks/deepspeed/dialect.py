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

import numpy as np

from benchrun.logs.dialect import DECIMAL, Dialect, Record, Table, groups
from benchrun.logs.numerals import positive
from benchrun.logs.rows import Rows

_PIPE = re.compile(
    r"\bsteps: (?P<step>\d{1,15}) loss: (?P<loss>\S+) (?:[\w ]{1,40}: \S+ ){0,9}"
    r"iter time \(s\): (?P<step_time_s>\d+\.\d+) samples/sec: \d"
)
_TIMER = re.compile(
    r"(?:\bglobal_step=|\] \d+/)(?P<step>\d{1,15}), RunningAvgSamplesPerSec=(?P<running>\d+\.?\d*), "
    r"CurrSamplesPerSec=(?P<samples_per_s>\d+\.?\d*),"
)
LAUNCHED = re.compile(r"\bdist_world_size=(?P<num_gpus>\d{1,7})\b")
"""The number of processes, each with a GPU of its own, as DeepSpeed's launcher prints
it on every node.
"""
WARM_UP, FEWEST = 5, 6
"""First rows that do not count; rows that are needed."""
SLACK = 0.25
"""Part of the rate that steps without a row may change."""


class DeepSpeed(Dialect):
    """DeepSpeed's timer and its pipeline engine."""

    name = "deepspeed"
    step_needles = (b" iter time (s): ", b"CurrSamplesPerSec=")
    fact_needles = (
        b"train_batch_size ...",
        b"train_micro_batch_size_per_gpu ",
        b" world_size ...",
        b"gradient_accumulation_steps ...",
        b'"train_batch_size": ',
        b'"train_micro_batch_size_per_gpu": ',
        b"dist_world_size=",
    )
    fact_groups = (
        LAUNCHED,
        re.compile(r"\"train_batch_size\": (?P<gbs>\d{1,9})(?=[,\s]|$)"),
        re.compile(r"\"train_micro_batch_size_per_gpu\": (?P<mbs>\d{1,9})(?=[,\s]|$)"),
        re.compile(r"\btrain_batch_size \.{3,} (?P<gbs>\d{1,9})(?=\s|$)"),
        re.compile(r"\btrain_micro_batch_size_per_gpu  ?(?:\.{3,} )?(?P<mbs>\d{1,9})(?=\s|$)"),
        re.compile(r"\bgradient_accumulation_steps \.{3,} (?P<accumulation_steps>\d{1,9})(?=\s|$)"),
        re.compile(r"\.py:\d+:print\] +world_size \.{3,} (?P<dp>\d{1,7})(?=\s|$)"),
    )
    strong = False
    program = "megatron-lm"

    def __init__(self) -> None:
        super().__init__()
        self._rates: dict[int, list[float]] = {}
        """Number of a step -> samples/s of all steps so far, and of its own."""

    def records(self, text: str) -> Iterator[Record]:
        """The pipeline engine's step, else the timer's."""
        if match := _PIPE.search(text):
            yield Record(groups(match, step_time_s=DECIMAL))
        elif (match := _TIMER.search(text)) and positive(match["samples_per_s"]):
            yield Record(groups(match, samples_per_s=DECIMAL, running=DECIMAL), needs="step")

    def complete(self, values: dict[str, Any]) -> None:
        """Compute the step time from samples per second if the log has stated its
        batch.
        """
        if "running" in values:
            names = ("step", "running", "samples_per_s")
            rates = (np.ravel(values[name]).tolist() for name in names)
            self._rates |= {step: pair for step, *pair in zip(*rates, strict=True)}
            del values["running"]
        if (batch := self.facts.gbs) and "samples_per_s" in values:
            rate = values.pop("samples_per_s")
            values |= {"step_time_s": batch / rate, "global_batch_size": batch}

    def finish(self) -> Rows:
        """The rows, and whether the mean of all steps moves as the rates of the rows do."""
        if self.rows.segments == 1 and _disagree(self._rates):
            detail = "RunningAvgSamplesPerSec does not move as CurrSamplesPerSec says"
            self.contradictions = [detail]
        return self.rows

    def take(self, tables: Sequence[Table]) -> bool:
        """Lines of one of the two kinds."""
        both = any({"samples_per_s", "step_time_s"} <= table.columns.keys() for table in tables)
        return not both and super().take(tables)


def _disagree(rates: dict[int, list[float]]) -> bool:
    """Whether the means of all steps so far, by step, say another rate than the steps
    do, whichever step the mean began with.
    """
    if len(rates) < WARM_UP + FEWEST:
        return False
    steps = np.array(sorted(rates)[WARM_UP:])
    running, current = np.array([rates[step] for step in steps.tolist()]).T
    if (running <= 0).any():
        return True
    apart = []
    for start in (0, min(rates) - 1, min(rates) - np.median(np.diff(steps))):
        spent = np.diff((steps - start) / running)
        # Few steps hold a pause, so the usual one tells.
        ratios = spent * current[1:] / np.diff(steps)
        apart.append(float(np.median(np.abs(ratios - 1))))
    return min(apart) > SLACK
