"""MaxText: metric_logger.py and pyconfig.py (`Config param`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from ..series import Row
from ..truth import Model, Truth
from .base import SETTING, Form, Line

INERT = {
    "adam_b2": (0.95, 0.999),
    "learning_rate": (3e-05, 0.0003),
    "remat_policy": ("full", "minimal_flash"),
    "scan_layers": (True, False),
    "enable_checkpointing": (True, False),
    "async_checkpointing": (True, False),
    "attention": ("dot_product", "cudnn_flash_te"),
    "dataset_type": ("tfds", "synthetic"),
    "gradient_clipping_threshold": (1.0, 0.0),
    "log_period": (100, 10),
    "warmup_steps_fraction": (0.1, 0.0),
    "reuse_example_batch": (0, 1),
    "weight_dtype": ("float32", "bfloat16"),
    "use_iota_embed": (False, True),
    "profiler": ("", "xplane"),
    "opt_type": ("adamw", "adam_pax"),
}
QUANTIZATION = {"fp8": "fp8", "nvfp4": "te_nvfp4", "mxfp8": "te_mxfp8"}


def model_parameters(model: Model) -> dict[str, Any]:
    """The parameters that state a model."""
    found: dict[str, Any] = {
        "decoder_block": _block(model),
        "emb_dim": model.hidden,
        "base_emb_dim": model.hidden,
        "mlp_dim": model.expert_ffn or model.ffn,
        "base_mlp_dim": model.expert_ffn or model.ffn,
        "num_decoder_layers": model.layers,
        "base_num_decoder_layers": model.layers,
        "num_query_heads": model.heads,
        "base_num_query_heads": model.heads,
        "num_kv_heads": model.kv_heads,
        "base_num_kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "mlp_activations": ["silu", "linear"] if model.gated else ["gelu"],
        "logits_via_embedding": model.tied,
        "attention_type": "global",
        "sliding_window_size": 0,
        "num_experts": model.experts or 1,
        "num_experts_per_tok": model.topk or 1,
        "mtp_num_layers": model.mtp,
        "q_lora_rank": 0,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    if model.window:
        found |= {"attention_type": "local_sliding", "sliding_window_size": model.window}
    if model.latent:
        a = model.latent
        found |= {"attention_type": "mla", "q_lora_rank": a.q_rank, "kv_lora_rank": a.kv_rank}
        found |= {"qk_nope_head_dim": a.qk, "qk_rope_head_dim": a.rope, "v_head_dim": a.v}
    return found


def _block(model: Model) -> str:
    """The kind of decoder."""
    if model.experts:
        return "mixtral"
    return "llama2" if model.gated else "gpt3"


@dataclass(frozen=True)
class MaxText(Form):
    """`completed step: N, seconds: X, TFLOP/s/device: X, Tokens/s/device: X, ..., loss: X`."""

    convention: str = "causal"
    moe_width: int | None = 0
    """The printed width of an expert, which this decoder does not use; 0: the true one."""
    tokens: bool = True
    zero_based: bool = True
    loss_digits: int = 5

    def states(self, truth: Truth) -> frozenset[str]:
        found = {"step_s", "tflops"} | (SETTING | {"planned"} if truth.states_setting else set())
        return frozenset(found | ({"rates"} if self.tokens else set()))

    def resolution(self, truth: Truth) -> float:
        return 0.0005 / truth.step_s

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if not truth.states_setting:
            return
        dtype = {"fp32": "float32", "fp16": "float16"}.get(truth.precision, "bfloat16")
        experts: dict[str, Any] = dict.fromkeys(("base_moe_mlp_dim", "moe_mlp_dim"), self.moe_width)
        if not self.moe_width:
            experts = dict.fromkeys(experts, truth.model.expert_ffn or -1)
        found = (
            model_parameters(truth.model)
            | ({} if self.moe_width is None else experts)
            | {
                "dtype": dtype,
                "quantization": QUANTIZATION.get(truth.precision, ""),
                "model_name": "default",
                "steps": truth.planned,
                "max_target_length": truth.seq_length,
                "per_device_batch_size": truth.gbs / truth.gpus,
                "global_batch_size_to_train_on": truth.gbs,
                "global_batch_size_to_load": truth.gbs,
                "gradient_accumulation_steps": 1,
                "ici_tensor_parallelism": truth.tp,
                "ici_fsdp_parallelism": truth.dp,
                "ici_data_parallelism": 1,
                "ici_context_parallelism": truth.cp,
                "ici_pipeline_parallelism": truth.pp,
                "dcn_data_parallelism": 1,
            }
        )
        changed = set(random.sample(sorted(INERT), min(truth.inert, len(INERT))))
        found |= {name: values[name in changed] for name, values in INERT.items()}
        for name in sorted(found):
            yield Line(f"Config param {name}: {found[name]}", 0, "head")
        yield Line("System Information: Jax Version: 0.6.0", 0, "head")
        shape = (truth.dp, truth.pp, truth.tp, truth.cp)
        yield Line(f"Num_devices: {truth.gpus}, shape {shape}", 0, "head")

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        tokens = row.gbs * truth.seq_length / row.seconds / truth.gpus
        flops = truth.model.flops(truth.seq_length, self.convention == "causal")
        text = f"completed step: {row.step - 1}, seconds: {row.seconds:.3f}, "
        text += f"TFLOP/s/device: {tokens * flops / 1e12 * truth.tflops_factor:.3f}, "
        if self.tokens:
            text += f"Tokens/s/device: {tokens * truth.rate_factor:.3f}, "
        text += f"total_weights: {row.gbs * truth.seq_length}, loss: {row.loss:.3f}"
        yield Line(text)

    def end(self, truth: Truth) -> Iterator[Line]:
        yield Line("Output size: 37095113100, temp size: 29224356968, in bytes.", 0, "end")


NAME = frozenset({"maxtext"})
BITS = frozenset({"bf16", "fp32", "fp8"})
PARTS = frozenset({"moe", "copies", "backlog"})
FORMS = (
    MaxText("maxtext-2024", NAME, BITS, (1,), PARTS, convention="full", tokens=False, moe_width=None),
    MaxText("maxtext-2025", NAME, BITS, (1,), PARTS, convention="full", moe_width=7168),
    MaxText("maxtext-2026", NAME, BITS | {"nvfp4", "mxfp8"}, (1,), PARTS | {"mla", "mtp"}),
)
