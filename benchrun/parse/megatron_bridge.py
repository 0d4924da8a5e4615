"""Megatron-Bridge: one step in two lines, from two ranks. Either may be missing from the file at hand.

    Step Time : 5.39s GPU utilization: 2347.0MODEL_TFLOP/s/GPU     (rank 0; no number; at first without MODEL_)
    [2026-01-27 12:00:00] iteration 5/ 50 | ... | elapsed time per iteration (ms): 5391.2 | ...   (last rank)

Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/utils/train_utils.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from benchrun.parse.dialect import positive
from benchrun.parse.lines import Line
from benchrun.parse.megatron import Megatron
from benchrun.parse.records import Rows, Step

_STEP_TIME = re.compile(
    r"Step Time\s*:\s*(\d+\.?\d*)s\s+GPU utilization:\s*(\d+\.?\d*|nan|inf)\s*(?:MODEL_)?TFLOP/s/GPU"
)
_START = re.compile(r"Starting training loop at iteration (\d{1,15})\b")


class MegatronBridge(Megatron):
    """NeMo's successor of 2025."""

    name = "megatron-bridge"
    step_needles = (b"Step Time : ", b"Starting training loop at iteration", *Megatron.step_needles)
    closing = ("TFLOP/s/GPU", "|")
    one_rank_prints = False  # the first rank prints one line of a step, and the last rank the other
    sinks = ("rows", "_unnumbered")
    counted = frozenset({"_unnumbered"})

    def __init__(self) -> None:
        super().__init__()
        self._unnumbered = Rows()
        """What rank 0 printed, numbered in order."""
        self._step = 0
        """The number of the last one: where training started, and one more each time."""

    def read(self, line: Line) -> None:
        """Either line of a step, or a fact. The second form alone is plain Megatron."""
        if match := _START.search(line.text):
            self._step = int(match[1])
            self._unnumbered.new_segment()
        elif matches := list(_STEP_TIME.finditer(line.text)):
            for match in matches:
                self._unnumbered_row(match, line.number)
        elif "elapsed" not in line.text or len(self._unnumbered):
            super().read(line)

    def _unnumbered_row(self, match: re.Match[str], line: int) -> None:
        time_s = positive(match[1])
        if time_s is not None:
            self._step += 1
            self._unnumbered.add(Step(self._step, time_s, line, tflops_per_gpu=positive(match[2])))

    def numbered(self, sink: str, found: dict[str, Any]) -> dict[str, Any]:
        """Rank 0's rows are counted."""
        steps = {"step": self._step + 1 + np.arange(len(found["line"]))} if sink == "_unnumbered" else {}
        return {**found, **steps}

    def take(self, sink: str, found: dict[str, Any], *, averages: bool) -> None:
        """Rows of rank 0, or of the last one."""
        if sink == "_unnumbered":
            self._step = int(found["step"][-1])
        super().take(sink, found, averages=averages)

    @property
    def seen(self) -> bool:
        """Its own line is the unnumbered one."""
        return len(self._unnumbered) > 0

    def finish(self) -> Rows:
        """The numbered rows where there are any: they have milliseconds and the loss."""
        numbered, timed = self.rows, self._unnumbered
        if not len(numbered):
            return timed
        if len(numbered) != len(timed):
            return numbered
        # As many of the one as of the other: then they belong together in order.
        both = Rows()
        both.segments = numbered.segments
        for row, other in zip(numbered, timed, strict=True):
            tflops = row.tflops_per_gpu if row.tflops_per_gpu is not None else other.tflops_per_gpu
            both.columns.append(row._replace(tflops_per_gpu=tflops), row.segment)
        return both
