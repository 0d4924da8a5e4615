"""Settings that are really in use, read from the model and the optimizer after the first step."""

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
    """Facts about this rank: kinds of weights and layers, FP8 recipes, the optimizer and its states."""
    modules = [module for chunk in model for module in chunk.modules()]
    parameters = [parameter for chunk in model for parameter in chunk.parameters()]
    # Attention modules are marked too, but compute in FP8 only with fp8_dpa.
    fp8 = [m for m in modules if getattr(m, "fp8", False) and any(True for _ in m.parameters(recurse=False))]
    recipes = [module.fp8_meta["recipe"] for module in fp8]
    kinds = {type(module).__name__ for module in modules}
    hooks = [hook for module in modules for hook in module._forward_pre_hooks.values()]
    first = parts(optimizer)[0]
    return {
        "sharded_weights": sum(hasattr(parameter, "to_local") for parameter in parameters),
        "weights": Counter(_kind(parameter) for parameter in parameters),
        "trained_parameters": sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        "gradients": sorted({_kind(p.main_grad) for p in parameters if getattr(p, "main_grad", None) is not None}),
        "fp8_modules": Counter(type(module).__name__ for module in fp8),
        "fp8_recipes": sorted({_recipe(recipe) for recipe in recipes}),
        "fp8_attention": any(getattr(recipe, "fp8_dpa", False) for recipe in recipes),
        "attention": sorted(kind for kind in kinds if "Attention" in kind),
        "mlp": sorted(kind for kind in kinds if kind.endswith("MLP")),
        "recompute": _recomputed(modules),
        "tp_comm_overlap": sum(_overlaps(module) for module in modules),
        "cp_comm": sorted({m.cp_comm_type for m in modules if hasattr(m, "cp_comm_type") and m.cp_group is not None}),
        "optimizer": f"{type(first).__module__}.{type(first).__name__}",
        "optimizer_states": _states(first),
        "gradient_norm": clip_grads.l2_norm_impl.__name__,
        "output_layer_gradient": _output_layer_gradient(modules),
        "swiglu": kernels.swiglu_in_use(),
        "late_loss_scale": any(isinstance(getattr(hook, "__self__", None), kernels.LateScale) for hook in hooks),
        "graphed_modules": sum(hasattr(module, "cudagraph_manager") for module in modules),
    }


def _kind(parameter: torch.Tensor) -> str:
    """bfloat16, float32, or the class of a quantised tensor: Float8Tensor, Float8BlockwiseQTensor."""
    if hasattr(parameter, "to_local"):  # this rank's part of a weight under FSDP
        parameter = parameter.to_local()
    for tensor in (parameter, parameter.data):
        if type(tensor).__name__ not in ("Parameter", "Tensor"):
            return type(tensor).__name__
    return str(parameter.dtype).removeprefix("torch.")


def _recipe(recipe: Any) -> str:
    """transformer-engine's name of an FP8 recipe; megatron.core may derive its own class."""
    names = (kind.__name__ for kind in type(recipe).__mro__ if kind.__module__.startswith("transformer_engine"))
    return next(names, type(recipe).__name__)


def _recomputed(modules: list[Any]) -> Counter[str]:
    """The number of layers that recompute each part."""
    blocks = [module for module in modules if isinstance(module, TransformerBlock)]
    whole = Counter(full=sum(len(b.layers) for b in blocks if b.config.recompute_granularity == "full"))
    rest = (m for m in modules if m not in blocks)  # a block repeats its layers' flag for attention
    return whole + Counter(name for m in rest for flag, name in RECOMPUTED.items() if getattr(m, flag, False))


def _overlaps(module: Any) -> bool:
    """Whether a linear layer of transformer-engine overlaps communication with its products."""
    return any(value is True for name, value in vars(module).items() if name.startswith(("ub_overlap", "ub_bulk")))


def _output_layer_gradient(modules: list[Any]) -> str:
    module = sys.modules.get(te.WGRAD)
    fused = any(getattr(getattr(m, "config", None), "gradient_accumulation_fusion", False) for m in modules)
    if module is None or not fused:
        return "autograd"
    add = inspect.unwrap(module.wgrad_gemm_accum_fp32)
    return "torch.addmm" if add is te.add_weight_gradient else "APEX"


def _states(optimizer: Any) -> dict[str, str]:
    """Precision of the optimizer's states of one weight (int16: the low bits of FP32 that a BF16 weight lacks)."""
    first: dict[str, Any] = next((state for state in optimizer.state.values() if state), {})
    return {name: _kind(value) for name, value in first.items() if torch.is_tensor(value)}
