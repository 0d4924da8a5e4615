"""verl's fine-tune: one line per step, its time last until 2025, followed by the step's
tokens since.

    step:1 - train/loss:0.8078852891921997 - train/lr(1e-3):0.00027027 - train/time(s):14.796027898788452
    step:2 - train/loss:0.71 - ... - train/mfu:0.41 - train/time(s):7.29 - train/global_tokens:131072 - ...

The time is that of the training step alone: a validation has a line of its own. In 2024
the lines had no time and the numbers began at 0. Source: verl-project/verl
verl/trainer/fsdp_sft_trainer.py and sft_trainer.py; logs of eric-haibin-lin/verl-data.
"""

import re

from benchrun.logs.dialect import Dialect
from benchrun.logs.lines import Line
from benchrun.logs.numerals import count, number, positive
from benchrun.logs.rows import Step

from .verl import values_of

_STEP = re.compile(r"(?<![\w-])step:\s?(\d{1,15}) - (?=.*\btrain/loss:)")
_TIME = re.compile(r"\btrain/time\(s\):\s?(\d{1,9}\.\d{4,}|\d{1,9}(?:\.\d+)?(?= - ))")
"""Time as the last value of a line, which may be cut: only with enough digits."""
_RANKS = re.compile(r"\btorchrun\b.*--nnodes[= ](\d{1,6})\b.*--nproc[-_]per[-_]node[= ](\d{1,4})\b")
"""Numbers of ranks in the command, as a shell with -x prints it."""


class VerlSft(Dialect):
    """verl's trainer of supervised fine-tuning since 2024."""

    name = "verl-sft"
    step_needles = (b" - train/loss:",)
    fact_needles = (b"Total training steps: ", b"torchrun ", b"train_batch_size=")
    fact_groups = (
        re.compile(r"Total training steps: (?P<planned_steps>\d{1,15})\b"),
        re.compile(r"\bdata\.train_batch_size=(?P<gbs>\d{1,9})(?=['\s]|$)"),
    )
    varying_length = True
    one_rank_prints = True

    def __init__(self) -> None:
        super().__init__()
        self.facts.task = "sft"
        self.facts.variable_length = True

    def read(self, line: Line) -> None:
        """A step, or what the command states."""
        head = _STEP.search(line.text)
        if head is None:
            self.read_facts(line.text)
        elif line.terminated:  # the last value of a line may be cut
            self._step(line, head)

    def read_facts(self, text: str) -> None:
        """Batch, planned steps and ranks."""
        super().read_facts(text)
        if ranks := _RANKS.search(text):
            self.facts.num_gpus = int(ranks[1]) * int(ranks[2]) or None

    def _step(self, line: Line, head: re.Match[str]) -> None:
        values, step = values_of(line.text[head.start() :]), count(head[1])
        loss = self.loss_of(values.get("train/loss"))
        if step is None or loss is None:
            return
        if step == 0 and not len(self.rows):
            self.first_number = 0
        time = _TIME.search(line.text, head.end())
        time_s, grad_norm = positive(time and time[1]), number(values.get("train/grad_norm"))
        self.rows.add(
            Step(step, time_s, line.number, loss=loss, grad_norm=grad_norm), end=self.last_planned
        )
        if tokens := positive(values.get("train/global_tokens")):
            self.quantities.setdefault("tokens", {})[step] = tokens
