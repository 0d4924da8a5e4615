"""The Hugging Face Trainer: transformers/trainer.py, trainer_callback.py (ProgressCallback)."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from random import Random
from typing import Any

from ..series import Checkpoint, Evaluation, Row
from ..truth import Truth
from .bars import bar
from .base import Form, Line


@dataclass(frozen=True)
class Trainer(Form):
    """A dictionary every logging step, bars in between, and a summary at the end."""

    quoted: bool = False
    """Numbers as strings of four digits (transformers 5, ms-swift 4)."""
    carriage: bool = False
    """Bars begin with a carriage return, as on a terminal, and share lines with dictionaries."""
    prefix: str = ""
    trainable: bool = True
    gradient: bool = True
    quotient: bool = True
    resumes: bool = False
    bars: bool = True
    loss_digits: int = 5

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"planned", "step_s"} | ({"gbs"} if truth.states_setting else set()))

    def resolution(self, truth: Truth) -> float:
        """The bars have whole seconds, and each pause, whose row does not count, cuts their clock anew."""
        pauses = len({*truth.evaluations, *truth.checkpoints})
        warm = max(5, truth.rows * truth.interval // 10)
        timed = (truth.rows - pauses) * truth.interval - warm
        return 1.5 * sqrt(1 + pauses) / truth.step_s / max(timed, 1)

    def _say(self, text: str, part: str) -> Line:
        return Line(self.prefix + text, 0, part)

    def samples(self, truth: Truth) -> int:
        """Samples that the data set has: one epoch."""
        return truth.planned * truth.gbs

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if truth.lora:
            yield Line(
                "trainable params: 20,971,520 || all params: 8,051,232,768 || trainable%: 0.2605",
                0,
                "head",
            )
        yield self._say("***** Running training *****", "head")
        yield self._say(f"  Num examples = {self.samples(truth):,}", "head")
        yield self._say("  Num Epochs = 1", "head")
        yield self._say(f"  Instantaneous batch size per device = {truth.mbs:,}", "head")
        if truth.states_setting:
            total = "  Total train batch size (w. parallel, distributed & accumulation)"
            yield self._say(f"{total} = {self.total(truth):,}", "head")
            yield self._say(f"  Gradient Accumulation steps = {truth.accumulation}", "head")
        yield self._say(f"  Total optimization steps = {truth.planned:,}", "head")
        if self.trainable:
            number = "20,971,520" if truth.lora else "8,030,261,248"
            yield self._say(f"  Number of trainable parameters = {number}", "head")

    def total(self, truth: Truth) -> int:
        """The total batch that the log states."""
        return truth.gbs * truth.tp if truth.inflated else truth.gbs

    def values(self, truth: Truth, row: Row) -> dict[str, Any]:
        """The dictionary of a logging step."""
        epoch = row.step / truth.planned
        loss = row.loss
        if loss != loss and truth.seed % 2:
            loss = 0.0  # logging_nan_inf_filter, the default, leaves NaN out of the mean
        return {
            "loss": round(loss, 4),
            "grad_norm": row.grad_norm,
            "learning_rate": 2e-05 * (1 - epoch),
            "epoch": round(epoch, 4),
        }

    def dictionary(self, values: dict[str, Any]) -> str:
        if self.quoted:
            return str({name: _quoted(value) for name, value in values.items()})
        return str(values)

    def _bars(self, truth: Truth, row: Row) -> list[str]:
        """One bar for each step of the interval."""
        start = row.elapsed - row.seconds * truth.interval
        found = []
        for i in range(1, truth.interval + 1):
            step = row.step - truth.interval + i
            found.append(bar(step, truth.planned, start + i * row.seconds, row.seconds))
        return found

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        drawn = self._bars(truth, row)
        text = self.dictionary(self.values(truth, row))
        if not self.carriage:
            for each in drawn:
                yield Line(each)
            yield Line(text)
            return
        yield Line("\r" + "\r".join(drawn) + "\r" + " " * 60 + "\r" + text)

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        yield self._say("", "event")
        yield self._say("***** Running Evaluation *****", "event")
        yield self._say("  Num examples = 80", "event")
        yield self._say(f"  Batch size = {truth.mbs}", "event")
        drawn = [bar(i, 10, event.seconds * i / 10, event.seconds / 10) for i in range(1, 11)]
        if self.carriage:
            yield Line("\r" + "\r".join(drawn), 0, "event")
        else:
            for each in drawn:
                yield Line(each, 0, "event")
        values = {
            "eval_loss": round(event.loss, 4),
            "eval_runtime": round(event.seconds, 4),
            "eval_samples_per_second": round(80 / event.seconds, 3),
            "eval_steps_per_second": round(10 / event.seconds, 3),
            "epoch": round(event.step / truth.planned, 4),
        }
        yield Line(self.dictionary(values), 0, "event")

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        yield self._say(f"Saving model checkpoint to out/checkpoint-{event.step}", "event")

    def end(self, truth: Truth) -> Iterator[Line]:
        runtime = self.total_seconds(truth)
        steps = truth.rows * truth.interval
        values = {
            "train_runtime": round(runtime, 4),
            "train_samples_per_second": round(steps * truth.gbs / runtime * truth.rate_factor, 3),
            "train_steps_per_second": round(steps / runtime, 3),
            "train_loss": 5.1234,
            "epoch": 1.0,
        }
        yield self._say("", "end")
        yield self._say("Training completed. Do not forget to share your model", "end")
        yield Line(self.dictionary(values), 0, "end")

    def total_seconds(self, truth: Truth) -> float:
        """What the Trainer's clock says at the end, with all pauses."""
        from ..series import events

        last, pauses = 0.0, 0.0
        for event in events(truth):
            if isinstance(event, Row):
                last, pauses = event.elapsed, 0.0
            elif isinstance(event, (Evaluation, Checkpoint)):
                pauses += event.seconds
        return last + pauses + 0.5


def _quoted(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


HF = frozenset({"hf"})
PARTS = frozenset({"evaluation", "checkpoint", "lora", "inflated"})
BITS = frozenset({"fp32", "fp16", "bf16", "fp8"})
FORMS = (
    Trainer("hf", HF, BITS, (1, 5), PARTS),
    Trainer("hf-info", HF, BITS, (1, 5), PARTS, prefix="[INFO|trainer.py:2519] 2026-01-05 10:00:00,000 >> "),
    Trainer("hf-terminal", HF, BITS, (1, 5), PARTS, carriage=True),
    Trainer("hf-quoted", HF, BITS, (1, 5), PARTS, quoted=True, carriage=True, loss_digits=4),
)
