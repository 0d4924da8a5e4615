"""RunSpec -> megatron.core's TransformerConfig, and what of it this process cannot have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from megatron.core.activations import squared_relu
from megatron.core.extensions.transformer_engine import HAVE_TE, fused_topk_with_score_function
from megatron.core.transformer import TransformerConfig

from benchrun.errors import UserError
from benchrun.spec.megatron import Megatron
from benchrun.spec.runspec import RunSpec
from benchrun.trainer import ranks


def refuse_impossible(spec: RunSpec) -> None:
    """What this process lacks. megatron.core takes fp8 without transformer-engine and trains in BF16, silently."""
    ranks.refuse_without_gpu(spec)
    if spec.transformer_engine:
        if not HAVE_TE:
            raise UserError(
                "training.transformer_impl is transformer_engine, and this process cannot import it",
                hint="use an image that has it, or transformer_impl=local, whose speed says little of a GPU",
            )
        known = {field.name for field in fields(TransformerConfig)}
        if spec.training.cuda_graphs != "none" and "cuda_graph_modules" not in known:
            raise UserError(
                "cuda_graphs need megatron-core 0.19 or later", hint="take such an image, or cuda_graphs=none"
            )
        return
    if spec.precision == "fp8":
        raise UserError(
            "precision fp8 needs a GPU and transformer-engine: without them it would silently be BF16",
            hint="use an image with it and transformer_impl=transformer_engine, or --precision bf16",
        )
    if asked := spec.training.of_transformer_engine:
        raise UserError(
            f"training.{asked[0]} needs a GPU and transformer-engine", hint="leave transformer_impl transformer_engine"
        )


def configuration(spec: RunSpec) -> Megatron:
    """The Megatron configuration of ``spec``. UserError where an older version wrote spec.json without one."""
    if spec.megatron is None:
        raise UserError("spec.json holds no Megatron configuration", hint="an older version wrote it: render it again")
    return spec.megatron


def transformer_config(spec: RunSpec) -> TransformerConfig:
    """The configuration of megatron.core for ``spec``."""
    core = configuration(spec)
    of_layers = (core.transformer, core.experts, core.parallel, core.precision, core.fp8, core.fusion, core.recompute)
    values: dict[str, Any] = {}
    for group in (*of_layers, core.worker):
        values |= group.values if group else {}
    for name in ("tp_comm_overlap", "overlap_p2p_comm", "batch_p2p_comm"):
        values[name] = getattr(core.communication, name)
    values["activation_func"] = _ACTIVATIONS[values["activation_func"]]
    if values.get("moe_router_fusion"):
        values["moe_router_fusion"] = fused_topk_with_score_function is not None
    return TransformerConfig(**of_torch(values))


def of_torch(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` with torch's own types for their names, and lists for tuples, as megatron.core changes some."""
    torch_types = {name: getattr(torch, value) for name, value in values.items() if name.endswith("_dtype")}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()} | torch_types


_ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "squared_relu": squared_relu,
}
