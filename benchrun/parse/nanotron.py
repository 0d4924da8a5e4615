"""nanotron: one line a log interval, numbers with a letter.

    12/21 01:39:51 [INFO|DP=0|TP=0|host]: iteration: 211364 / 1500000 | consumed_tokens: 480B | time_per_iteration_ms:
    8.79K | tokens_per_sec_per_gpu: 699 | global_batch_size: 1.6M | lm_loss: 2.04 | model_tflops_per_gpu: 15.4 | ...

Three digits, so 0.5 % at best. ``global_batch_size`` counts tokens. Source: huggingface/nanotron
src/nanotron/trainer.py; until 2024 the time is ``elapsed_time_per_iteration_ms``.
"""

from __future__ import annotations

import re

from benchrun.parse.dialect import Dialect, fields, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.records import Step

_HEAD = re.compile(r"\biteration: (\d{1,15}) / (\d{1,15}) \| ")
_SUFFIX = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_SETTING = re.compile(r"\b(micro_batch_size|sequence_length|tp|pp|dp|expert_parallel_size)=(\d{1,9})\b")


class Nanotron(Dialect):
    """nanotron."""

    name = "nanotron"
    step_needles = (b"time_per_iteration_ms: ",)
    fact_needles = (b"micro_batch_size=", b"sequence_length=", b"expert_parallel_size=")
    one_line = True

    def read(self, line: Line) -> None:
        """A step line, or settings."""
        head = _HEAD.search(line.text)
        if head is None:
            self._fact(line.text)
        elif self.whole(line):
            self._row(head, line.text[head.end() :], line.number)

    def _row(self, head: re.Match[str], body: str, line: int) -> None:
        # A field counts when the bar behind it is there.
        found = fields(body.rpartition(" | ")[0], " | ")
        time_ms = abbreviated(found.get("time_per_iteration_ms", found.get("elapsed_time_per_iteration_ms")))
        if time_ms is None:
            return
        self.facts.planned_steps = int(head[2])
        self.rows.add(
            Step(
                int(head[1]),
                time_ms / 1000,
                line,
                loss=number(found.get("lm_loss")),
                grad_norm=number(found.get("grad_norm")),
                tflops_per_gpu=abbreviated(found.get("model_tflops_per_gpu")),
                tokens_per_s_per_gpu=abbreviated(found.get("tokens_per_sec_per_gpu")),
            ),
        )

    def _fact(self, text: str) -> None:
        said = {name: int(value) for name, value in _SETTING.findall(text)}
        facts = self.facts
        facts.seq_length = said.get("sequence_length", facts.seq_length)
        facts.micro_batch_size = said.get("micro_batch_size", facts.micro_batch_size)
        facts.tp, facts.pp = said.get("tp", facts.tp), said.get("pp", facts.pp)


def abbreviated(text: str | None) -> float | None:
    """``8.79K`` -> 8790."""
    if not text:
        return None
    factor = _SUFFIX.get(text[-1])
    value = positive(text[:-1] if factor else text)
    return value * (factor or 1) if value is not None else None
