"""NeMo-Aligner's fine-tuning, DPO and reward models: a progress bar, which every rank draws.

    Training steps:   0%|          | 1/1876 [02:37<60:20:41, 115.86s/it, train_lr=5e-7, train_loss=1.44,
        train_consumed_samples=16, train_step_time=41.2, train_epoch=1]

A step's postfix is drawn while the bar still has the number of the step before, and again as the number rises: which
of the two a bar is follows from the samples, a whole batch per step. The time is that of the training step alone, with
three significant digits and by each rank's own clock: where several ranks draw into one log, the slowest counts.
Source: NVIDIA/NeMo-Aligner nemo_aligner/algorithms/supervised.py, dpo.py; a log of alex-ht/nemo_cp_debug.
"""

from benchrun.frameworks.dialects import lightning
from benchrun.frameworks.dialects.nemo_aligner import bar_of, pairs_of
from benchrun.parse.dialect import Dialect, count, fact_of, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.rows import Step

_BAR = bar_of("Training steps")


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

    def read(self, line: Line) -> None:
        """Every bar of a line, or the number of ranks."""
        bars = list(_BAR.finditer(line.text))
        for bar in bars:
            values, planned = pairs_of(bar[4] or ""), fact_of("planned_steps", count(bar[2]))
            samples, time_s = count(values.get("train_consumed_samples")), positive(values.get("train_step_time"))
            step = self._step(int(bar[1]), samples) if samples else None
            if step is None or time_s is None:
                continue
            self.facts.planned_steps = planned or self.facts.planned_steps
            loss, grad_norm = (number(values.get(f"train_{name}")) for name in ("loss", "grad_norm"))
            if len(self.rows) and (self.rows[-1].step, self.rows[-1].loss) == (step, loss):
                time_s = max(time_s, self.rows[-1].step_time_s or 0)
            row = Step(step, time_s, line.number, loss=loss, grad_norm=grad_norm, global_batch_size=self.facts.gbs)
            self.rows.add(row, end=self.last_planned)
        if not bars:
            self.read_facts(line.text)

    def _step(self, finished: int, samples: int) -> int | None:
        """The step whose postfix a bar with this number has; None where its samples fit neither it nor the next."""
        sizes = {step: samples // step for step in (finished, finished + 1) if step and samples % step == 0}
        if len(sizes) == 1:
            self.facts.gbs = fact_of("gbs", *sizes.values())
        return next((step for step, size in sizes.items() if size == self.facts.gbs), None)
