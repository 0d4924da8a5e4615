"""Megatron-LM: `print_args` and `training_log` of megatron/training/training.py, and its forks."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from ..series import Checkpoint, Evaluation, Row
from ..truth import Model, Truth
from .base import SETTING, Form, Line

INERT = {
    "overlap_grad_reduce": (False, True),
    "use_distributed_optimizer": (False, True),
    "tp_comm_overlap": (False, True),
    "sequence_parallel": (False, True),
    "distributed_timeout_minutes": (10, 30),
    "lr": (0.0001, 3e-05),
    "seed": (1234, 42),
    "num_workers": (2, 8),
    "save_interval": (None, 500),
    "adam_beta2": (0.999, 0.95),
    "weight_decay": (0.01, 0.1),
    "manual_gc": (False, True),
    "tensorboard_dir": (None, "/tmp/tb"),
    "clip_grad": (1.0, 0.5),
    "lr_decay_style": ("linear", "cosine"),
    "exit_duration_in_mins": (None, 235),
    "cross_entropy_loss_fusion": (False, True),
    "use_flash_attn": (False, True),
    "overlap_p2p_comm": (False, True),
    "wandb_project": ("", "llm"),
    "gradient_accumulation_fusion": (True, False),
    "recompute_granularity": (None, "selective"),
}
"""Options that leave the model's FLOPs alone: default, another value."""

EXOTIC = {
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M*-",
    "heterogeneous_layers_config_path": "/data/layers.json",
    "experimental_attention_variant": "dsa",
    "linear_attention_type": "gated_delta_net",
    "retro_add_retriever": True,
}
"""Options that change the work in a way that the dimensions do not show."""


def precision_arguments(precision: str) -> dict[str, Any]:
    """The arguments that state a precision; the casts have 16 bits but in FP32."""
    found: dict[str, Any] = {"bf16": precision not in ("fp16", "fp32"), "fp16": precision == "fp16"}
    found["fp8"] = {"fp8": "hybrid", "mxfp8": "e4m3"}.get(precision)
    found["fp8_recipe"] = {"mxfp8": "mxfp8"}.get(precision, "delayed")
    if precision == "nvfp4":
        found |= {"fp4": "e2m1", "fp4_recipe": "nvfp4"}
    return found


def model_arguments(model: Model) -> dict[str, Any]:
    """The arguments that state a model, with the defaults of what it does not have."""
    found: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "num_query_groups": model.kv_heads,
        "group_query_attention": model.kv_heads != model.heads,
        "kv_channels": model.head_dim,
        "swiglu": model.gated,
        "untie_embeddings_and_output_weights": not model.tied,
        "num_experts": model.experts or None,
        "moe_router_topk": model.topk or 2,
        "moe_ffn_hidden_size": model.expert_ffn or None,
        "moe_layer_freq": 1,
        "moe_shared_expert_intermediate_size": model.shared_ffn or None,
        "mtp_num_layers": model.mtp or None,
        "window_size": (model.window, 0) if model.window else None,
        "multi_latent_attention": model.latent is not None,
        "q_lora_rank": None,
        "kv_lora_rank": 32,
        "qk_head_dim": 128,
        "qk_pos_emb_head_dim": 64,
        "v_head_dim": 128,
    }
    if model.latent:
        a = model.latent
        found |= {"q_lora_rank": a.q_rank, "kv_lora_rank": a.kv_rank, "qk_head_dim": a.qk}
        found |= {"qk_pos_emb_head_dim": a.rope, "v_head_dim": a.v}
    return found


def arguments(truth: Truth, random: Random) -> dict[str, Any]:
    """Every argument that the form prints."""
    block = 128 * truth.tp
    found = model_arguments(truth.model) | precision_arguments(truth.precision)
    found |= {
        "world_size": truth.gpus,
        "data_parallel_size": truth.dp,
        "tensor_model_parallel_size": truth.tp,
        "pipeline_model_parallel_size": truth.pp,
        "context_parallel_size": truth.cp,
        "expert_model_parallel_size": truth.ep,
        "global_batch_size": truth.gbs,
        "micro_batch_size": truth.mbs,
        "rampup_batch_size": None,
        "seq_length": truth.seq_length,
        "max_position_embeddings": truth.seq_length,
        "padded_vocab_size": math.ceil(truth.model.vocab / block) * block,
        "train_iters": truth.planned,
        "log_interval": truth.interval,
        "eval_interval": 1000,
    }
    if truth.ramp:
        found["rampup_batch_size"] = [str(truth.gbs // 2), str(truth.gbs // 2), "4000"]
    changed = set(random.sample(sorted(INERT), truth.inert))
    found |= {name: values[name in changed] for name, values in INERT.items()}
    if truth.exotic:
        found |= dict.fromkeys(EXOTIC) | {truth.exotic: EXOTIC[truth.exotic]}
    return found


def dump(found: dict[str, Any]) -> Iterator[Line]:
    """Megatron's table of arguments."""
    yield Line("------------------------ arguments ------------------------", 0, "head")
    for name in sorted(found, key=str.lower):
        yield Line(f"  {name} {'.' * (48 - len(name))} {found[name]}", 0, "head")
    yield Line("-------------------- end of arguments ---------------------", 0, "head")


def classic_flops(truth: Truth) -> float:
    """FLOPs per token by core 0.5's formula: an MLP of four times the width, without gate."""
    m, h = truth.model, truth.model.hidden
    inner = 1 + m.kv_heads / (5 * m.heads) + truth.seq_length / (5 * h)
    return 60 * m.layers * h * h * (inner + m.vocab / (10 * m.layers * h))


def _recomputes(truth: Truth) -> bool:
    """Whether a job of Megatron-DeepSpeed recomputes activations, a pass that its TFLOPS count."""
    return truth.seed % 2 == 1


@dataclass(frozen=True)
class Megatron(Form):
    """`iteration N/ M | ... |`, printed by the last rank; the arguments by the first."""

    mark: str | None = ""
    """none, seconds, micro: what stands before the iteration."""
    convention: str | None = "causal"
    """Of the printed TFLOPS: causal, full, classic, recompute, or None for no field."""
    consumed: bool = True
    skipped_samples: bool = False
    rate: str = "{:.3E}"
    fork: str | None = None
    gradient: bool = True

    def states(self, truth: Truth) -> frozenset[str]:
        found = {"planned", "step_s"} | (SETTING if truth.states_setting else set())
        if self.consumed:
            found.add("gbs")
        beside = truth.prints_rates or self.fork != "deepspeed"  # it prints all rates or none
        if self.convention and truth.prints_tflops and beside:
            found.add("tflops")
        if self.fork and truth.prints_rates:
            found.add("rates")
        return frozenset(found)

    def resolution(self, truth: Truth) -> float:
        return 0.00005 / truth.step_s

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if truth.states_setting:
            yield Line(
                f"using world size: {truth.gpus}, data-parallel size: {truth.dp}, "
                f"context-parallel size: {truth.cp}, tensor-model-parallel size: {truth.tp}, "
                f"pipeline-model-parallel size: {truth.pp}",
                0,
                "head",
            )
            found = arguments(truth, random)
            if self.convention == "recompute":
                found["recompute_granularity"] = "full" if _recomputes(truth) else None
            yield from dump(found)
        yield Line("> initialized tensor model parallel with size " + str(truth.tp), 0, "head")
        yield Line("[before the start of training step] datetime: 2026-03-01 10:00:00 ", 0, "head")

    def printed_tflops(self, truth: Truth, row: Row) -> float:
        """TFLOPS of a row by the form's own convention."""
        tokens = row.gbs * truth.seq_length / row.seconds / truth.gpus / 1e12
        m = truth.model
        full = m.flops(truth.seq_length, causal=False)
        per_token = {
            "causal": m.flops(truth.seq_length, causal=True),
            "full": full,
            "classic": classic_flops(truth),
            "recompute": full * (4 / 3 if _recomputes(truth) else 1),
        }
        return tokens * per_token[self.convention or "full"] * truth.tflops_factor

    def _dated(self, truth: Truth, row: Row) -> str:
        """The date of a step's line, if the release prints one."""
        return "" if self.mark is None else f" [{self.date(truth, row)}]"

    def _timing(self, truth: Truth, row: Row) -> Iterator[str]:
        """Step time and, where the release prints it, throughput."""
        yield f"elapsed time per iteration (ms): {row.seconds * 1000:.1f}"
        if "tflops" in self.states(truth) and self.fork != "deepspeed":
            yield f"throughput per GPU (TFLOP/s/GPU): {self.printed_tflops(truth, row):.1f}"

    def _losses(self, row: Row) -> Iterator[str]:
        """Loss and gradient norm: a loss that is not above 0 is left out, as NaN is."""
        if row.loss > 0:
            yield f"lm loss: {row.loss:.6E}"
        yield "loss scale: 1.0"
        yield f"grad norm: {row.grad_norm:.3f}"

    def fields(self, truth: Truth, row: Row) -> Iterator[str]:
        if self.consumed:
            yield f"consumed samples: {row.samples:12d}"
        if self.skipped_samples:
            yield f"skipped samples: {0:12d}"
        if self.fork == "deepspeed":
            yield f"consumed tokens: {row.samples * truth.seq_length:12d}"
        yield from self._timing(truth, row)
        yield "learning rate: " + self.rate.format(1e-4)
        if self.consumed:
            yield f"global batch size: {row.gbs:5d}"
        yield from self._losses(row)
        if self.fork == "deepspeed":
            yield f"actual seqlen: {truth.seq_length:5d}"
        yield f"number of skipped iterations: {0:3d}"
        yield f"number of nan iterations: {0:3d}"
        yield from self._rates(truth, row)

    def _rates(self, truth: Truth, row: Row) -> Iterator[str]:
        """What Megatron-DeepSpeed appends."""
        if self.fork != "deepspeed" or "rates" not in self.states(truth):
            return
        samples = row.gbs / row.seconds * truth.rate_factor
        yield f"samples per second: {samples:.3f}"
        tokens = samples * truth.seq_length / truth.gpus
        yield f"tokens per gpu per second (tgs): {tokens:.3f}"
        if truth.prints_tflops:
            yield f"TFLOPs: {self.printed_tflops(truth, row):.2f}"

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        text = f"{self._dated(truth, row)} iteration {row.step:8d}/{truth.planned:8d} | "
        text += " | ".join(self.fields(truth, row)) + " |"
        yield Line(text, truth.gpus - 1)

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        text = f" validation loss at iteration {event.step} | lm loss value: {event.loss:.6E} | "
        text += f"lm loss PPL: {math.exp(event.loss):.6E} | "
        for each in ("-" * len(text), text, "-" * len(text)):
            yield Line(each, truth.gpus - 1, "event")

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        place = f"iteration {event.step:7d} to /data/ckpt in torch_dist format"
        yield Line(f"saving checkpoint at {place}", 0, "event")
        done = f"  successfully saved checkpoint from iteration {event.step:7d} to /data/ckpt"
        yield Line(done, 0, "event")

    def end(self, truth: Truth) -> Iterator[Line]:
        yield Line("[after training is done] datetime: 2026-03-01 12:00:00 ", 0, "end")


@dataclass(frozen=True)
class Primus(Megatron):
    """AMD's Primus: current and mean value, with a slash between."""

    def _timing(self, truth: Truth, row: Row) -> Iterator[str]:
        mean = truth.step_s * 1000
        yield f"elapsed time per iteration (ms): {row.seconds * 1000:.1f}/{mean:.1f}"
        yield "hip mem usage/free/total/usage_ratio: 152.31GB/39.66GB/191.98GB/79.34%"
        if truth.prints_tflops:
            now = self.printed_tflops(truth, row)
            yield f"throughput per GPU (TFLOP/s/GPU): {now:.1f}/{now:.1f}"
        if truth.prints_rates:
            tokens = row.gbs * truth.seq_length / row.seconds / truth.gpus * truth.rate_factor
            yield f"tokens per GPU (tokens/s/GPU): {tokens:.1f}/{tokens:.1f}"


PARTS = frozenset({"moe", "shared", "mla", "window", "mtp", "ramp", "evaluation", "restart", "exotic", "half"})
NAMES = frozenset({"megatron-lm", "megatron-core", "megatron-bridge"})
ALL16 = frozenset({"fp32", "fp16", "bf16"})
EIGHT = frozenset({"fp16", "bf16", "fp8"})
NEW = frozenset({"bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp32"})
FORMS = (
    Megatron("megatron-2021", NAMES, ALL16, (1, 10), frozenset({"ramp", "restart"}), mark=None, convention=None),
    Megatron(
        "megatron-0.5",
        NAMES,
        EIGHT,
        (1, 5, 10),
        frozenset({"ramp", "restart", "evaluation"}),
        mark=None,
        convention="classic",
    ),
    Megatron(
        "megatron-0.10",
        NAMES,
        EIGHT,
        (1, 5, 10),
        PARTS - {"mla", "mtp", "window"},
        convention="full",
        rate="{:.6E}",
        skipped_samples=True,
    ),
    Megatron("megatron-0.14", NAMES, NEW, (1, 5, 10), PARTS, rate="{:.6E}", skipped_samples=True),
    Megatron("megatron-0.17", NAMES, NEW, (1, 5, 10), PARTS, mark=".", rate="{:.6E}"),
    Primus("megatron-primus", NAMES, EIGHT, (1,), PARTS - {"exotic", "ramp"}, rate="{:.6E}", fork="primus"),
    Megatron(
        "megatron-deepspeed",
        NAMES,
        ALL16,
        (1, 10),
        frozenset({"restart", "evaluation"}),
        mark=None,
        convention="recompute",
        fork="deepspeed",
    ),
)
