"""MLPerf's NeMo, NeMo AutoModel and Aligner, verl's fine-tune, PaXML, nanotron, DeepSpeed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from ..series import Checkpoint, Evaluation, Row
from ..truth import Truth
from .bars import clock, meter
from .base import Form, Line


def _mllog(key: str, value: Any, kind: str = "POINT_IN_TIME", **metadata: Any) -> Line:
    """One line of mlperf_logging."""
    where = {"file": "/workspace/llm/custom_callbacks.py", "lineno": 234}
    record = {"namespace": "", "time_ms": 1684040096650, "event_type": kind, "key": key}
    return Line(":::MLLOG " + json.dumps(record | {"value": value, "metadata": where | metadata}))


@dataclass(frozen=True)
class Mllog(Form):
    """NeMo in MLPerf: JSON after `:::MLLOG`; ``step`` counts tokens."""

    loss_digits: int = 16
    numbered: bool = False
    timing: str = "train_step_timing in s"

    def states(self, truth: Truth) -> frozenset[str]:
        # A run that began and has no end is not whole.
        ends = {"planned"} if truth.ending != "complete" else set()
        return frozenset({"gbs", "seq_length", "step_s"} | ends)

    def resolution(self, truth: Truth) -> float:
        return 0.0

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        yield _mllog("submission_benchmark", "gpt3")
        yield _mllog("global_batch_size", truth.gbs)
        yield _mllog("gradient_accumulation_steps", truth.accumulation)
        yield _mllog("max_sequence_length", truth.seq_length)
        yield _mllog("init_stop", None, "INTERVAL_END")
        yield _mllog("run_start", None, "INTERVAL_START")
        yield _mllog("block_start", None, "INTERVAL_START", first_epoch_num=0)

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        value = {self.timing: row.seconds, "reduced_train_loss": row.loss}
        yield _mllog("tracked_stats", value, step=row.samples * truth.seq_length)

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        tokens = event.step * truth.gbs * truth.seq_length
        yield _mllog("eval_start", None, "INTERVAL_START", epoch_num=tokens)
        yield _mllog("tracked_stats", {"validation_step_timing": event.seconds / 3}, step=tokens)
        yield _mllog("eval_accuracy", event.loss, epoch_num=tokens)
        yield _mllog("eval_stop", None, "INTERVAL_END", epoch_num=tokens)

    def end(self, truth: Truth) -> Iterator[Line]:
        yield _mllog("block_stop", None, "INTERVAL_END", first_epoch_num=0)
        yield _mllog("run_stop", None, "INTERVAL_END", status="success")


@dataclass(frozen=True)
class Automodel(Form):
    """NeMo AutoModel: tokens/s of all GPUs, and over the data- and context-parallel ranks."""

    as_json: bool = False
    quotient: bool = True
    gradient: bool = True
    zero_based: bool = True
    loss_digits: int = 5

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"total_rate"})

    def resolution(self, truth: Truth) -> float:
        return 0.005 / (truth.tokens_per_s_per_gpu * truth.gpus)

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if truth.lora and not self.as_json:
            stamp = "2026-01-05 10:00:00 | INFO | nemo_automodel.components.utils.model_utils | "
            yield Line(stamp + "Trainable parameters: 20,971,520", 0, "head")
            yield Line(stamp + "Total parameters: 8,051,232,768", 0, "head")
            yield Line(stamp + "Trainable parameters percentage: 0.26%", 0, "head")

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        total = row.gbs * truth.seq_length / row.seconds
        share = total / (truth.dp * truth.cp)
        step = row.step - 1
        if self.as_json:
            record = {"step": step, "epoch": 0, "timestamp": "2026-01-05T10:00:00.000000+00:00"}
            record |= {"loss": row.loss, "grad_norm": row.grad_norm, "lr": 1e-05, "mem": 30.25}
            record |= {"tps": total, "tps_per_gpu": share}
            record["num_label_tokens"] = row.gbs * truth.seq_length * 2 // 5
            yield Line(json.dumps(record))
            return
        yield Line(
            f"2026-01-05 10:00:00 | INFO | root | step {step} | epoch 0 | loss {row.loss:.4f} | "
            f"grad_norm {row.grad_norm:.4f} | lr {1e-05:.2e} | mem {30.25:.2f} GiB | "
            f"tps {total:.2f}({share:.2f}/gpu) | "
            f"num_label_tokens {row.gbs * truth.seq_length * 2 // 5}"
        )

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        if not self.as_json:
            yield Line(
                f'2026-01-05 10:00:00 | INFO | root | [val] name "default" | step {event.step - 1} | '
                f"epoch 0 | loss {event.loss:.4f} | lr {1e-05:.2e} | num_label_tokens 4096",
                0,
                "event",
            )


@dataclass(frozen=True)
class VerlSft(Form):
    """verl's fine-tune: `step:N - train/loss:X - train/time(s):X`."""

    loss_digits: int = 16
    conversations: bool = True

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"step_s"})

    def resolution(self, truth: Truth) -> float:
        return 0.0

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        yield Line(f"step:{row.step} - train/loss:{row.loss!r} - train/lr(1e-3):0.01 - train/time(s):{row.seconds!r}")

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        yield Line(f"step:{event.step} - val/loss:{event.loss!r}", 0, "event")


def three_digits(value: float) -> str:
    """`tqdm.format_num` of a number."""
    short = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    return min(short, str(value), key=len)


@dataclass(frozen=True)
class Aligner(Form):
    """NeMo-Aligner's fine-tune: a bar per step, drawn twice, with three digits."""

    loss_digits: int = 3
    gradient: bool = True
    conversations: bool = True

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"planned", "step_s"})

    def resolution(self, truth: Truth) -> float:
        return 0.005

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        values = {
            "train_grad_norm": three_digits(row.grad_norm),
            "train_lr": "5e-7",
            "train_loss": three_digits(row.loss),
            "train_consumed_samples": str(row.samples),
            "train_step_time": three_digits(row.seconds),
            "train_epoch": "1",
        }
        words = ", ".join(f"{name}={value}" for name, value in values.items())
        for done in (row.step - 1, row.step):
            share = f"{100 * done / truth.planned:3.0f}%"
            left = clock((truth.planned - done) * row.seconds)
            times = f"[{clock(row.elapsed)}<{left}, {row.seconds:5.2f}s/it"
            text = f"Training steps: {share}|{meter(done, truth.planned)}| {done}/{truth.planned} "
            yield Line("\r" + text + times + ", " + words + "]", glued=True)


@dataclass(frozen=True)
class Paxml(Form):
    """PaXML: steps/sec of a window, and the status with the loss."""

    loss_digits: int = 16

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"step_s"})

    def resolution(self, truth: Truth) -> float:
        return 0.0000005 * truth.step_s

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        rate = 1 / row.seconds
        stamp = "I1126 01:01:37.457869 139677277326208 "
        yield Line(f"{stamp}programs.py:485] steps/sec: {rate:f}")
        yield Line(
            f"{stamp}local.py:45] Setting task status: step = {row.step}, loss= {row.loss!r}, "
            f"steps/sec {rate!r}, aux_loss=0.0, avg_xent={row.loss!r}"
        )


def human(value: float) -> str:
    """nanotron's `human_format`: three digits and a letter."""
    if value != value or abs(value) < 1:
        return f"{value:.3g}"
    value, size = float(f"{value:.3g}"), 0
    while abs(value) >= 1000:
        value, size = value / 1000, size + 1
    return f"{value:f}".rstrip("0").rstrip(".") + ["", "K", "M", "B", "T", "P"][size]


@dataclass(frozen=True)
class Nanotron(Form):
    """nanotron: `iteration: N / M | time_per_iteration_ms: 8.79K | ...`, three digits each."""

    loss_digits: int = 3

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"planned", "step_s", "rates", "tflops"})

    def resolution(self, truth: Truth) -> float:
        return 0.005

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        total = row.gbs * truth.seq_length / row.seconds * truth.rate_factor
        flops = truth.model.flops(truth.seq_length, causal=False)
        used = row.gbs * truth.seq_length / row.seconds / truth.gpus * flops / 1e12
        values = {
            "consumed_tokens": human(row.samples * truth.seq_length),
            "time_per_iteration_ms": human(row.seconds * 1000),
            "tokens_per_sec": human(total),
            "tokens_per_sec_per_gpu": human(total / truth.gpus),
            "global_batch_size": human(row.gbs * truth.seq_length),
            "lm_loss": human(row.loss),
            "lr": human(3e-4),
            "model_tflops_per_gpu": human(used * truth.tflops_factor),
            "eta": "1:45:39",
        }
        words = " | ".join(f"{name}: {value}" for name, value in values.items())
        start = "12/21/2025 01:39:51 [INFO|DP=0|PP=0|TP=0|node-1]: "
        yield Line(f"{start}iteration: {row.step} / {truth.planned} | {words}")


@dataclass(frozen=True)
class DeepSpeed(Form):
    """DeepSpeed's engine: samples/s over all GPUs, every `steps_per_print` steps."""

    loss_digits: int = 0
    mark: str | None = ","

    def states(self, truth: Truth) -> frozenset[str]:
        return frozenset({"sample_rate"})

    def resolution(self, truth: Truth) -> float:
        return 0.0

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        stamp = f"[{self.date(truth, row)}] [INFO] "
        yield Line(
            f"{stamp}[logging.py:96:log_dist] [Rank 0] step={row.step}, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]"
        )
        rate = row.gbs / row.seconds
        own = row.samples - (truth.first_step - 1) * truth.gbs
        running = own / row.elapsed * truth.beside_factor
        yield Line(
            f"{stamp}[timer.py:264:stop] epoch=0/micro_step={row.step * truth.accumulation}/"
            f"global_step={row.step}, RunningAvgSamplesPerSec={running}, "
            f"CurrSamplesPerSec={rate}, MemAllocated=12.5GB, MaxMemAllocated=40.1GB"
        )

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        place = f"/ckpt/global_step{event.step}/mp_rank_00_model_states.pt"
        yield Line(
            f"[2026-04-04 09:10:13,619] [INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saving {place}...",
            0,
            "event",
        )


BITS = frozenset({"bf16", "fp16", "fp32", "fp8"})
BOTH = frozenset({"evaluation"})
FORMS = (
    Mllog("mllog-v3", frozenset({"nemo1"}), frozenset({"bf16", "fp8"}), (1,), BOTH, timing="train_step_timing"),
    Mllog("mllog-v4", frozenset({"nemo1"}), frozenset({"bf16", "fp8"}), (1,), BOTH),
    Automodel("automodel", frozenset({"nemo-automodel"}), BITS, (1,), BOTH | {"lora"}),
    Automodel("automodel-jsonl", frozenset({"nemo-automodel"}), BITS, (1,), as_json=True, loss_digits=16),
    VerlSft("verl-sft", frozenset({"verl-sft"}), BITS, (1,), BOTH),
    Aligner("nemo-aligner-sft", frozenset({"nemo-aligner-sft"}), frozenset({"bf16"}), (1,)),
    Paxml("paxml", frozenset({"paxml"}), frozenset({"bf16", "fp8", "fp32"}), (10,), frozenset({"copies"})),
    Nanotron("nanotron", frozenset({"nanotron"}), frozenset({"bf16", "fp32"}), (1, 10)),
    DeepSpeed("deepspeed", frozenset({"deepspeed"}), BITS, (1, 10), frozenset({"checkpoint"})),
)
