"""NeMo-Aligner's fine-tuning, DPO and reward models: a progress bar, which every rank
draws.

    Training steps:   0%|          | 1/1876 [02:37<60:20:41, 115.86s/it, train_lr=5e-7, train_loss=1.44,
        train_consumed_samples=16, train_step_time=41.2, train_epoch=1]

A step's postfix is drawn while the bar still has the number of the step before, and
again as the number rises: which of the two a bar is follows from the samples, a whole
batch per step. The time is that of the training step alone, with three significant
digits and by each rank's own clock: if several ranks draw into one log, the slowest
counts. Source: NVIDIA/NeMo-Aligner nemo_aligner/algorithms/supervised.py, dpo.py; a log
of alex-ht/nemo_cp_debug.
"""

import re

from benchrun.frameworks.lightning import facts as lightning
from benchrun.logs.dialect import Dialect
from benchrun.logs.lines import Line
from benchrun.logs.numerals import count, fact_of, number, positive, seconds
from benchrun.logs.rows import Step

from .nemo_aligner import bar_of, pairs_of

_BAR = bar_of("Training steps")
MOST_DRAWN = 64
"""Bars within which a postfix is drawn again: those of several ranks may stand between.
"""


class NemoAlignerSft(Dialect):
    """NeMo-Aligner's trainers of fixed data, 0.1 to 0.7."""

    name = "nemo-aligner-sft"
    step_needles = (b"train_step_time=",)
    fact_needles = lightning.NEEDLES
    fact_groups = lightning.FACTS
    varying_length = True

    def __init__(self) -> None:
        super().__init__()
        self.facts.variable_length = True
        self._drawn: dict[str, int] = {}
        """Postfix -> number with which it was drawn first, of the last rows: a higher
        one is no other row.
        """

    def read(self, line: Line) -> None:
        """Every bar of a line, or the number of ranks."""
        bars = list(_BAR.finditer(line.text))
        for bar in bars:
            finished, postfix = int(bar[1]), bar[4] or ""
            risen = self._drawn.get(postfix, finished) < finished
            if not risen and (row := self._row(bar, pairs_of(postfix), line.number)):
                self._drawn = dict([*self._drawn.items(), (postfix, finished)][-MOST_DRAWN:])
                self._add(row)
        if not bars:
            self.read_facts(line.text)

    def _row(self, bar: re.Match[str], values: dict[str, str], line: int) -> Step | None:
        """The step of a bar's postfix; None if its number or its time is unknown."""
        samples, time_s = (
            count(values.get("train_consumed_samples")),
            positive(values.get("train_step_time")),
        )
        step = self._step(int(bar[1]), samples) if samples else None
        if step is None or time_s is None:
            return None
        self.facts.take("planned_steps", count(bar[2]))
        loss = number(values.get("train_loss"))
        grad_norm = number(values.get("train_grad_norm"))
        row = Step(step, time_s, line, loss=loss, grad_norm=grad_norm, clock_s=seconds(bar[3]))
        return row._replace(global_batch_size=self.facts.gbs)

    def _add(self, row: Step) -> None:
        """Add a row, which the time of a slower rank stays in."""
        before = self.rows[-1] if len(self.rows) else row
        self.rows.add(row, end=self.last_planned)
        slower = (before.step_time_s or 0) > (row.step_time_s or 0)
        if slower and (before.step, before.loss) == (row.step, row.loss):
            self.rows.add(row._replace(step_time_s=before.step_time_s), end=self.last_planned)

    def _step(self, finished: int, samples: int) -> int | None:
        """The step whose postfix a bar with this number has; None if its samples fit
        neither it nor the next.
        """
        sizes = {}
        for step in (finished, finished + 1):
            if step and samples % step == 0:
                sizes[step] = samples // step
        if len(sizes) == 1:
            self.facts.gbs = fact_of("gbs", *sizes.values())
        return next((step for step, size in sizes.items() if size == self.facts.gbs), None)
