"""Megatron-Bridge: one step in two lines, from two ranks. Either may be missing from the file at hand.

    Step Time : 5.39s GPU utilization: 2347.0MODEL_TFLOP/s/GPU     (rank 0; no number; at first without MODEL_)
    [2026-01-27 12:00:00] iteration 5/ 50 | ... | elapsed time per iteration (ms): 5391.2 | ...   (last rank)

Before them stands its configuration: YAML, or what differs from Megatron Core's defaults. The model's ``seq_length``
there may be its longest context; the ``sequence_length`` of pre-training data is what a sample has. GPUs follow from
the number of micro-batches. Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/config.py and
utils/train_utils.py, and logs.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchrun.frameworks.dialects.megatron import Megatron
from benchrun.parse.columns import NO_VALUE
from benchrun.parse.dialect import DECIMAL, Record, fact_of, groups
from benchrun.parse.lines import Line
from benchrun.parse.rows import Rows

_STEP_TIME = re.compile(
    r"Step Time\s*:\s*(?P<step_time_s>\d+\.?\d*)s\s+"
    r"GPU utilization:\s*(?P<tflops_per_gpu>\d+\.?\d*|nan|inf)\s*(?:MODEL_)?TFLOP/s/GPU"
)
_SETTINGS = {
    **{"global_batch_size": "gbs", "micro_batch_size": "mbs", "sequence_length": "seq_length"},
    **{"tensor_model_parallel_size": "tp", "pipeline_model_parallel_size": "pp", "context_parallel_size": "cp"},
    **{"expert_model_parallel_size": "ep", "virtual_pipeline_model_parallel_size": "vp"},
}
_SETTING = re.compile(rf"(?:^|\s)  ({'|'.join(_SETTINGS)}): (\d{{1,9}})(?=\s|$)")
_MICRO_BATCHES = re.compile(r"setting number of microbatches to constant (\d{1,9})\b")
_START = re.compile(r"Starting training loop at iteration (\d{1,15})\b")


class MegatronBridge(Megatron):
    """NeMo's successor of 2025."""

    name = "megatron-bridge"
    step_needles = (b"Step Time : ", b"Starting training loop at iteration", *Megatron.step_needles)
    fact_needles = (
        *(f"  {name}: ".encode() for name in _SETTINGS),
        b"setting number of microbatches to constant ",
        *Megatron.fact_needles,
    )
    closing = ("TFLOP/s/GPU", "|")
    one_rank_prints = False  # the first rank prints one line of a step, and the last rank the other
    printed_conventions = ("full", "causal", "causal_ungated")

    def __init__(self) -> None:
        super().__init__()
        self._unnumbered = Rows()
        """What rank 0 printed, numbered in order."""
        self._micro_batches = 0
        self._step = 0
        """The number of the last one: where training started, and one more each time."""

    def read(self, line: Line) -> None:
        """Either line of a step, or a fact."""
        if match := _START.search(line.text):
            self._step = int(match[1])
            self._unnumbered.new_segment()
        elif _STEP_TIME.search(line.text):
            for record in self.records(line.text):
                self.add(record, line.number)
        elif "elapsed" not in line.text or len(self._unnumbered):
            super().read(line)

    def records(self, text: str) -> Iterator[Record]:
        """The lines of rank 0, else those of the last rank; these alone are plain Megatron's."""
        if "Starting training loop at iteration" in text:
            return
        matches = list(_STEP_TIME.finditer(text))
        for match in matches:
            yield Record(groups(match, step_time_s=DECIMAL, tflops_per_gpu=DECIMAL), "_unnumbered")
        if not matches and len(self._unnumbered):
            yield from super().records(text)

    def read_facts(self, text: str) -> None:
        """A line of the configuration: of a name that several sections have, the model's comes first."""
        super().read_facts(text)
        facts = self.facts
        for name, value in _SETTING.findall(text):
            if getattr(facts, field := _SETTINGS[name]) is None:
                setattr(facts, field, fact_of(field, int(value)))
        if match := _MICRO_BATCHES.search(text):
            self._micro_batches = int(match[1])
        per_rank = (facts.mbs or 0) * self._micro_batches
        if facts.gbs and per_rank and facts.gbs % per_rank == 0:
            gpus = facts.gbs // per_rank * (facts.tp or 1) * (facts.pp or 1) * (facts.cp or 1)
            facts.num_gpus = fact_of("num_gpus", gpus)

    def complete(self, values: dict[str, Any]) -> None:
        """Rank 0's rows are counted."""
        if "step" not in values:
            steps = self._step + np.arange(1, np.size(values["line"]) + 1)
            self._step = int(steps[-1])
            values["step"] = steps if np.ndim(values["line"]) else self._step

    @property
    def seen(self) -> bool:
        """Its own line is the unnumbered one."""
        return len(self._unnumbered) > 0

    def finish(self) -> Rows:
        """The numbered rows where there are any: they have milliseconds and the loss."""
        numbered, timed = self.rows, self._unnumbered
        if len(numbered) != len(timed):
            return numbered if len(numbered) else timed
        # As many of the one as of the other: then they belong together in order.
        own, other = numbered.column("tflops_per_gpu"), timed.column("tflops_per_gpu")
        return numbered.chosen(slice(None), tflops_per_gpu=np.where(own == NO_VALUE, other, own))
