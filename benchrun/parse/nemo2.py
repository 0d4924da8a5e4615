"""NeMo 2: one line a step, from its ProgressPrinter.

    Training epoch 0, iteration 3/99 | lr: 1e-06 | global_batch_size: 128 | global_step: 3 | reduced_train_loss: 11.03
    | train_step_timing in s: 12.64 | TFLOPS_per_GPU: 712.3 | consumed_samples: 512         (on one line)

Steps count from 0, the iteration within an epoch, the denominator is the last iteration; four significant digits. The
order of the fields changes after a restart and after a validation. Source: NVIDIA/NeMo
nemo/lightning/pytorch/callbacks/progress_printer.py.
"""

from __future__ import annotations

import re

from benchrun.parse.dialect import Dialect, batch, count, fields, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.records import Step

_HEAD = re.compile(r"Training epoch (\d{1,9}), iteration (\d{1,15})/(\d{1,15}) \| ")
_TIME = "train_step_timing in s"
_RANKS = re.compile(r"MEMBER: \d{1,9}/(\d{1,9})\b")


class Nemo2(Dialect):
    """NeMo 2.x."""

    name = "nemo2"
    step_needles = (b"train_step_timing in s: ",)
    fact_needles = (b"GLOBAL_RANK: 0, MEMBER: ",)
    first_number = 0
    one_rank_prints = True
    one_line = True

    def read(self, line: Line) -> None:
        """A step line; or how many ranks there are."""
        if ranks := _RANKS.search(line.text):
            self.facts.num_gpus = int(ranks[1])
        heads = list(_HEAD.finditer(line.text)) if self.whole(line) else []
        for position, head in enumerate(heads):
            end = heads[position + 1].start() if position + 1 < len(heads) else len(line.text)
            self._row(head, line.text[head.end() : end], line.number)

    def _row(self, head: re.Match[str], body: str, line: int) -> None:
        # At the end of a line a number may be cut, so the last field does not count. But after a restart the time
        # stands there by right, behind the samples; and in a run's first row, whose time has start-up in it anyway.
        closed, _, last = body.rpartition(" | ")
        found = fields(closed, " | ")
        if last.startswith(_TIME) and "consumed_samples" in found:
            found |= fields(last, " | ")
        first = last.startswith(_TIME) and not len(self.rows)
        time_s = positive(found.get(_TIME))
        if time_s is None and not first:
            return
        step = count(found.get("global_step"))
        self.facts.planned_steps = int(head[3]) + 1
        self.rows.add(
            Step(
                int(head[2]) if step is None else step,
                time_s,
                line,
                loss=number(found.get("reduced_train_loss")),
                grad_norm=number(found.get("grad_norm")),
                global_batch_size=batch(found.get("global_batch_size")),
                tflops_per_gpu=positive(found.get("TFLOPS_per_GPU")),
                tokens_per_s_per_gpu=positive(found.get("tokens_per_sec_per_gpu")),
            ),
            averages=True,
        )
