"""Megatron-Bridge: the configuration summary, `Step Time` and the iteration line."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from ..series import Checkpoint, Row
from ..truth import Model, Truth
from .base import SETTING, Line
from .megatron import Megatron

INERT = {
    "cross_entropy_fusion_impl": ("native", "te"),
    "masked_softmax_fusion": (False, True),
    "batch_p2p_comm": (True, False),
    "gradient_accumulation_fusion": (False, True),
    "persist_layer_norm": (False, True),
    "bias_dropout_fusion": (False, True),
    "apply_rope_fusion": (False, True),
    "deallocate_pipeline_outputs": (False, True),
    "sequence_parallel": (False, True),
    "tp_comm_overlap": (False, True),
    "recompute_granularity": (None, "selective"),
    "wgrad_deferral_limit": (0, -1),
    "attention_dropout": (0.1, 0.0),
    "hidden_dropout": (0.1, 0.0),
}


def model_fields(model: Model) -> dict[str, tuple[Any, Any]]:
    """TransformerConfig fields: value and megatron-core's default."""
    found: dict[str, tuple[Any, Any]] = {
        "num_layers": (model.layers, 0),
        "hidden_size": (model.hidden, 0),
        "ffn_hidden_size": (model.ffn, None),
        "num_attention_heads": (model.heads, 0),
        "num_query_groups": (model.kv_heads, None),
        "kv_channels": (model.head_dim, None),
        "gated_linear_unit": (model.gated, False),
        "num_moe_experts": (model.experts or None, None),
        "moe_router_topk": (model.topk or 2, 2),
        "moe_ffn_hidden_size": (model.expert_ffn or None, None),
        "moe_shared_expert_intermediate_size": (model.shared_ffn or None, None),
        "mtp_num_layers": (model.mtp or None, None),
        "window_size": ((model.window, 0) if model.window else None, None),
        "multi_latent_attention": (model.latent is not None, False),
    }
    if model.latent:
        a = model.latent
        found |= {"q_lora_rank": (a.q_rank, 512), "kv_lora_rank": (a.kv_rank, 512)}
        found |= {"qk_head_dim": (a.qk, 128), "qk_pos_emb_head_dim": (a.rope, 64)}
        found |= {"v_head_dim": (a.v, 128)}
    return found


def precision_fields(precision: str) -> dict[str, tuple[Any, Any]]:
    """Fields that state a precision; FP32 is the default and stays unprinted."""
    found: dict[str, tuple[Any, Any]] = {}
    if precision == "fp16":
        found["fp16"] = (True, False)
    elif precision != "fp32":
        found["bf16"] = (True, False)
    if precision in ("fp8", "mxfp8"):
        found["fp8"] = ({"fp8": "hybrid", "mxfp8": "e4m3"}[precision], None)
    if precision == "nvfp4":
        found |= {"fp4": ("e2m1", None), "fp4_recipe": ("nvfp4", None)}
    if precision != "fp32":
        found["fp8_recipe"] = ({"mxfp8": "mxfp8"}.get(precision, "tensorwise"), "delayed")
    return found


@dataclass(frozen=True)
class Bridge(Megatron):
    """A Megatron line after a line `Step Time : 5.39s GPU utilization: 2347.0MODEL_TFLOP/s/GPU`."""

    lines: str = "both"
    """both, step_time, iteration."""

    def states(self, truth: Truth) -> frozenset[str]:
        found = {"step_s"}
        if self.lines != "iteration":
            found.add("tflops")
        if self.lines != "step_time":
            found |= {"planned", "gbs"}
        if truth.states_setting and self.lines != "iteration":
            found |= SETTING - {"num_gpus"}
            found |= {"planned"} if self.numbered else set()
            found -= {"precision"} if truth.precision == "fp32" else set()
        return frozenset(found)

    def resolution(self, truth: Truth) -> float:
        return (0.005 if self.lines == "step_time" else 0.00005) / truth.step_s

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if truth.states_setting and self.lines != "iteration":
            for text in self._summary(truth, random):
                yield Line(text, 0, "head")
        if truth.lora:
            for i in range(min(truth.model.layers, 4)):
                where = f"decoder.layers.{i}.self_attention.linear_qkv"
                yield Line(f"INFO:root:Adding lora to: {where}", 0, "head")
        number = truth.accumulation
        yield Line(
            f"INFO:megatron.core.num_microbatches_calculator:setting number of microbatches to constant {number}",
            0,
            "head",
        )
        yield Line(f"> initialized tensor model parallel with size {truth.tp}", 0, "head")
        yield Line(f"> initialized pipeline model parallel with size {truth.pp}", 0, "head")
        yield Line(f"Starting training loop at iteration {truth.first_step - 1}", 0, "head")

    def _summary(self, truth: Truth, random: Random) -> Iterator[str]:
        rule = "=" * 70
        yield from (rule, "Configuration Summary (Non-Default Values vs Megatron Core)", rule, "")
        yield "[optimizer] Non-default values (vs Mcore OptimizerConfig):"
        yield "  lr: 3e-06  (Mcore default: None)"
        yield ""
        yield "[model] Non-default values (vs Mcore TransformerConfig):"
        degrees = {
            "tensor_model_parallel_size": truth.tp,
            "pipeline_model_parallel_size": truth.pp,
            "context_parallel_size": truth.cp,
            "expert_model_parallel_size": truth.ep,
        }
        found = model_fields(truth.model) | precision_fields(truth.precision)
        found |= {name: (value, 1) for name, value in degrees.items()}
        for name in random.sample(sorted(INERT), min(truth.inert, len(INERT))):
            default, other = INERT[name]
            found[name] = (other, default)
        for name in sorted(found):
            value, default = found[name]
            if value != default:
                yield f"  {name}: {value!r}  (Mcore default: {default!r})"
        yield from ("", "-" * 70, "Other Configuration Values:", "-" * 70, "")
        yield from ("[train]:", f"  global_batch_size: {truth.gbs}")
        yield f"  micro_batch_size: {truth.mbs}"
        yield from ("  manual_gc: True", f"  train_iters: {truth.planned}", "", "[dataset]:")
        yield from ("  data_parallel_size: 1", "  dataloader_type: 'single'")
        yield from (f"  sequence_length: {truth.seq_length}", "", "[logger]:")
        yield from (f"  log_interval: {truth.interval}", "", "[tokenizer]:")
        yield from ("  tokenizer_type: 'NullTokenizer'", f"  vocab_size: {truth.model.vocab}", "", rule)

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        if self.lines != "iteration":
            used = self.printed_tflops(truth, row)
            text = f"Step Time : {row.seconds * truth.beside_factor:.2f}s GPU utilization: {used:.1f}MODEL_TFLOP/s/GPU"
            yield Line(text, 0)
        if self.lines != "step_time":
            yield from super().row(truth, row)

    def _timing(self, truth: Truth, row: Row) -> Iterator[str]:
        yield f"elapsed time per iteration (ms): {row.seconds * 1000:.1f}"

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        yield Line(f"saving checkpoint at iteration {event.step:7d} to /ckpt", 0, "event")


NAME = frozenset({"megatron-bridge"})
BITS = frozenset({"bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp32"})
PARTS = frozenset({"moe", "shared", "mla", "window", "mtp", "lora", "evaluation", "checkpoint"})
FORMS = (
    Bridge("bridge", NAME, BITS, (1,), PARTS),
    Bridge("bridge-iteration", NAME | {"megatron-lm", "megatron-core"}, BITS, (1, 10), PARTS, lines="iteration"),
    Bridge(
        "bridge-step-time",
        NAME,
        BITS,
        (1,),
        PARTS - {"evaluation"},
        lines="step_time",
        mark=None,
        numbered=False,
        loss_digits=0,
        gradient=False,
    ),
)
