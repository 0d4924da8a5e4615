"""Frameworks on the Hugging Face Trainer: TRL, ms-swift, LLaMA-Factory, Axolotl, Unsloth."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from ..series import Row
from ..truth import Truth
from .base import Line
from .trainer import BITS, HF, PARTS, Trainer

DTYPE = {"fp16": "torch.float16", "fp32": "torch.float32"}


def tokens_per_s_per_gpu(truth: Truth, row: Row) -> float:
    """The rate that a framework would print, with what the truth makes wrong of it."""
    return row.gbs * truth.seq_length / row.seconds / truth.gpus * truth.rate_factor


@dataclass(frozen=True)
class Trl(Trainer):
    """SFTTrainer: the number of tokens so far, entropy and accuracy in each dictionary."""

    def values(self, truth: Truth, row: Row) -> dict[str, Any]:
        tokens = float(row.samples * truth.seq_length)
        added = {"entropy": 1.2345, "num_tokens": tokens, "mean_token_accuracy": 0.7123}
        return super().values(truth, row) | added


@dataclass(frozen=True)
class Swift(Trainer):
    """ms-swift: `global_step/max_steps`, `elapsed_time` and a mean speed in each dictionary."""

    def values(self, truth: Truth, row: Row) -> dict[str, Any]:
        left = (truth.planned - row.step) * row.seconds
        return super().values(truth, row) | {
            "token_acc": 0.6417,
            "global_step/max_steps": f"{row.step}/{truth.planned}",
            "elapsed_time": _minutes(row.elapsed),
            "remaining_time": _minutes(left),
            "memory(GiB)": 55.36,
            "train_speed(s/it)": round(row.elapsed / row.step, 6),
        }


def _minutes(seconds: float) -> str:
    """Seconds in ms-swift's words: 1h 2m 3s."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    words = [f"{hours}h"] if hours else []
    words += [f"{minute}m"] if minutes else []
    return " ".join([*words, f"{second}s"])


@dataclass(frozen=True)
class Factory(Trainer):
    """LLaMA-Factory: its parser states the world size and the type of the computation."""

    def states(self, truth: Truth) -> frozenset[str]:
        found = super().states(truth)
        if truth.states_setting and truth.precision != "fp8":
            found |= {"num_gpus", "precision"}
        return found

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if truth.states_setting and truth.precision != "fp8":
            dtype = DTYPE.get(truth.precision, "torch.bfloat16")
            yield Line(
                "[INFO|2025-10-05 10:00:00] llamafactory.hparams.parser:423 >> Process rank: 0, "
                f"world size: {truth.gpus}, device: cuda:0, distributed training: True, "
                f"compute dtype: {dtype}",
                0,
                "head",
            )
        if truth.lora:
            prefix = "[INFO|2025-10-05 10:00:09] llamafactory.model.adapter:143 >> "
            yield Line(prefix + "Fine-tuning method: LoRA", 0, "head")
        yield from super().head(truth, random)


@dataclass(frozen=True)
class FactoryJson(Factory):
    """LLaMA-Factory's trainer_log.jsonl: a cumulative rate of all ranks, whole seconds."""

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"planned", "step_s"})

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        return iter(())

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        left = (truth.planned - row.step) * row.seconds
        record: dict[str, Any] = {
            "current_steps": row.step,
            "total_steps": truth.planned,
            "loss": round(row.loss, 4),
            "lr": 2e-05,
            "epoch": round(row.step / truth.planned, 4),
            "percentage": round(100 * row.step / truth.planned, 2),
            "elapsed_time": str(timedelta(seconds=int(row.elapsed))),
            "remaining_time": str(timedelta(seconds=int(left))),
        }
        yield Line(json.dumps(record))

    def end(self, truth: Truth) -> Iterator[Line]:
        return iter(())


@dataclass(frozen=True)
class Axolotl(Trainer):
    """Axolotl: memory and, of the tokens that have a loss, tokens/s of a GPU in each dictionary."""

    def values(self, truth: Truth, row: Row) -> dict[str, Any]:
        found = super().values(truth, row)
        epoch = found.pop("epoch")
        found |= {"memory/max_active (GiB)": 51.2, "memory/device_reserved (GiB)": 60.4}
        if truth.prints_rates:
            found["tokens/train_per_sec_per_gpu"] = round(0.7 * tokens_per_s_per_gpu(truth, row), 2)
        return found | {"epoch": epoch}


@dataclass(frozen=True)
class Unsloth(Trainer):
    """Unsloth: a banner states batch and number of GPUs."""

    def states(self, truth: Truth) -> frozenset[str]:
        found = {"planned", "step_s"}
        return frozenset(found | ({"gbs", "num_gpus"} if truth.states_setting else set()))

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if not truth.states_setting:
            return
        share = "20,971,520 of 8,051,232,768 (0.26% trained)"
        if not truth.lora:
            share = "8,030,261,248 of 8,030,261,248 (100.00% trained)"
        product = f"({truth.mbs} x {truth.accumulation} x {truth.dp})"
        for text in (
            f"==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = {truth.gpus}",
            f"   \\\\   /|    Num examples = {self.samples(truth):,} | Num Epochs = 1 | "
            f"Total steps = {truth.planned:,}",
            f"O^O/ \\_/ \\    Batch size per device = {truth.mbs} | Gradient accumulation steps = {truth.accumulation}",
            f"\\        /    Data Parallel GPUs = {truth.dp} | Total batch size {product} = {truth.gbs:,}",
            f' "-____-"     Trainable parameters = {share}',
        ):
            yield Line(text, 0, "head")


FORMS = (
    Trl("trl-sft", HF | {"trl"}, BITS, (1, 5), PARTS, carriage=True),
    Swift("ms-swift", HF, BITS, (1, 5), PARTS, quoted=True, carriage=True, loss_digits=4),
    Factory("llama-factory", HF, BITS, (1, 5), PARTS),
    FactoryJson("llama-factory-jsonl", HF, BITS, (1, 5), frozenset(), quotient=False, gradient=False),
    Axolotl("axolotl", HF, BITS, (1,), PARTS, carriage=True),
    Unsloth("unsloth", HF, BITS, (1,), PARTS - {"inflated"}, carriage=True),
)
