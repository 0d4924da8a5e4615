"""Settings that are really in use, read from the model and the optimizer after the
first step."""

import importlib
import inspect
import sys
from collections import Counter
from typing import Any

import torch
from megatron.core.optimizer import clip_grads
from megatron.core.transformer.transformer_block import TransformerBlock

from benchrun.worker import kernels, te
from benchrun.worker.build import parts

# Attributes of megatron.core's layers that recompute -> the names in a recipe.
RECOMPUTED = {
    "recompute_mlp": "mlp",
    "recompute_input_layernorm": "layernorm",
    "recompute_pre_mlp_layernorm": "layernorm",
    "checkpoint_core_attention": "core_attn",
    "moe_layer_recompute": "moe",
    "activation_recompute": "moe_act",
}


def in_use(model: list[Any], optimizer: Any) -> dict[str, Any]:
    """Facts about this rank: kinds of weights and layers, FP8 recipes, the optimizer
    and its states."""
    modules = []
    parameters = []
    for chunk in model:
        modules += chunk.modules()
        parameters += chunk.parameters()
    first = parts(optimizer)[0]
    return {
        **_weights(parameters),
        **_low_precision(modules),
        **_layers(modules),
        "optimizer": f"{type(first).__module__}.{type(first).__name__}",
        "optimizer_states": _states(first),
        "gradient_norm": clip_grads.l2_norm_impl.__name__,
        "output_layer_gradient": _output_layer_gradient(modules),
        "swiglu": _swiglu(),
        "late_loss_scale": any(map(_scales_late, modules)),
        "graphed_modules": sum(hasattr(module, "cudagraph_manager") for module in modules),
    }


def _weights(parameters: list[Any]) -> dict[str, Any]:
    kinds = Counter[str]()
    gradients = set()
    sharded = 0
    trained = 0
    for parameter in parameters:
        kinds[_kind(parameter)] += 1
        sharded += hasattr(parameter, "to_local")
        if parameter.requires_grad:
            trained += parameter.numel()
        if getattr(parameter, "main_grad", None) is not None:
            gradients.add(_kind(parameter.main_grad))
    return {
        "sharded_weights": sharded,
        "weights": kinds,
        "trained_parameters": trained,
        "gradients": sorted(gradients),
    }


def _low_precision(modules: list[Any]) -> dict[str, Any]:
    kinds = Counter[str]()
    recipes = set()
    attention = False
    for module in modules:
        # Attention modules are marked too, but compute in FP8 only with fp8_dpa.
        if getattr(module, "fp8", False) and list(module.parameters(recurse=False)):
            recipe = module.fp8_meta["recipe"]
            kinds[type(module).__name__] += 1
            recipes.add(_recipe(recipe))
            attention = attention or getattr(recipe, "fp8_dpa", False)
    return {
        "fp8_modules": kinds,
        "fp8_recipes": sorted(recipes),
        "fp8_attention": bool(attention),
    }


def _layers(modules: list[Any]) -> dict[str, Any]:
    kinds = sorted({type(module).__name__ for module in modules})
    cp_comm = set()
    for module in modules:
        if hasattr(module, "cp_comm_type") and module.cp_group is not None:
            cp_comm.add(module.cp_comm_type)
    return {
        "attention": [kind for kind in kinds if "Attention" in kind],
        "mlp": [kind for kind in kinds if kind.endswith("MLP")],
        "recompute": _recomputed(modules),
        "tp_comm_overlap": sum(map(_overlaps, modules)),
        "cp_comm": sorted(cp_comm),
    }


def _swiglu() -> str:
    """Library whose kernel computes SwiGLU, if any does."""
    fused = importlib.import_module("megatron.core.fusions.fused_bias_swiglu")
    if fused.SwiGLUFunction.__module__ == fused.__name__:
        return "torch"
    return "transformer_engine"


def _scales_late(module: Any) -> bool:
    """Whether a hook of the loss's late scale runs before the module."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(getattr(hook, "__self__", None), kernels.LateScale):
            return True
    return False


def _kind(parameter: torch.Tensor) -> str:
    """bfloat16, float32, or the class of a quantised tensor: Float8Tensor,
    Float8BlockwiseQTensor."""
    if hasattr(parameter, "to_local"):  # this rank's part of a weight under FSDP
        parameter = parameter.to_local()
    for tensor in (parameter, parameter.data):
        if type(tensor).__name__ not in ("Parameter", "Tensor"):
            return type(tensor).__name__
    return str(parameter.dtype).removeprefix("torch.")


def _recipe(recipe: Any) -> str:
    """transformer-engine's name of an FP8 recipe; megatron.core may derive its own
    class."""
    for kind in type(recipe).__mro__:
        if kind.__module__.startswith("transformer_engine"):
            return kind.__name__
    return type(recipe).__name__


def _recomputed(modules: list[Any]) -> Counter[str]:
    """The number of layers that recompute each part."""
    counted = Counter[str]()
    for module in modules:
        if isinstance(module, TransformerBlock):  # it repeats its layers' flag for attention
            if module.config.recompute_granularity == "full":
                counted["full"] += len(module.layers)
            continue
        for flag, name in RECOMPUTED.items():
            if getattr(module, flag, False):
                counted[name] += 1
    return +counted


def _overlaps(module: Any) -> bool:
    """Whether a linear layer of transformer-engine overlaps communication with its
    products."""
    flags = [name for name, value in vars(module).items() if value is True]
    return any(name.startswith(("ub_overlap", "ub_bulk")) for name in flags)


def _output_layer_gradient(modules: list[Any]) -> str:
    module = sys.modules.get(te.WGRAD)
    configs = [getattr(each, "config", None) for each in modules]
    fused = any(getattr(config, "gradient_accumulation_fusion", False) for config in configs)
    if module is None or not fused:
        return "autograd"
    add = inspect.unwrap(module.wgrad_gemm_accum_fp32)
    if add is te.add_weight_gradient:
        return "torch.addmm"
    return "APEX"


def _states(optimizer: Any) -> dict[str, str]:
    """Precision of the optimizer's states of one weight (int16: the low bits of FP32
    that a BF16 weight lacks)."""
    first: dict[str, Any] = next(filter(None, optimizer.state.values()), {})
    found = {}
    for name, value in first.items():
        if torch.is_tensor(value):
            found[name] = _kind(value)
    return found
