"""NeMo 1 imports APEX, which has no wheel. Here it lets NeMo 1 of 24.09 run with transformer-engine of 2025.

- APEX's fused Adam, its kernels over lists of tensors and its fused rotary embedding are transformer-engine's, which
  were moved there from APEX. The rotary embedding's result lies in memory as APEX's does, a sequence after the other.
- APEX's distributed Adam has kernels that transformer-engine has not: a run must state
  training.distributed_optimizer=false.
- APEX's norms are names only. NeMo 1 asks whether a layer is one of them; its layers are transformer-engine's.
- transformer-engine's split of queries, keys and values is also where megatron-core 0.9 looks for it; core would take
  torch's in its place.
- NVIDIA_PYTORCH_VERSION is that of the release's image. NeMo 1 ends without it; it would turn nvFuser on for 2023.
"""

import os
import sys
import types
from typing import Any

import torch
import transformer_engine.pytorch.attention
from transformer_engine.pytorch.attention import rope
from transformer_engine.pytorch.optimizers import FusedAdam, multi_tensor_applier
from transformer_engine.pytorch.utils import SplitAlongDim

__path__: list[str] = []  # a package; what is not below is not there
os.environ.setdefault("NVIDIA_PYTORCH_VERSION", "24.07")
transformer_engine.pytorch.attention._SplitAlongDim = SplitAlongDim


class DistributedFusedAdam(torch.optim.Optimizer):
    """A name that NeMo 1 derives a class from."""

    ParameterFragment = ParameterBucket = object

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("APEX's distributed Adam is not here: state training.distributed_optimizer=false")


def set_defaults(parameter: torch.nn.Parameter) -> None:
    """Marks a parameter as not split over tensor-parallel ranks, unless it is marked; megatron-core's own function."""
    from megatron.core.tensor_parallel.layers import set_defaults_if_not_set_tensor_model_parallel_attributes

    set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)


def rotary(t: torch.Tensor, freqs: torch.Tensor, transpose_output_memory: bool = False) -> torch.Tensor:
    """Turns queries or keys, [sequence, batch, heads, head size]."""
    if not transpose_output_memory:
        return rope.apply_rotary_pos_emb(t, freqs, tensor_format="sbhd", fused=True)
    return rope.apply_rotary_pos_emb(t.transpose(0, 1), freqs, tensor_format="bshd", fused=True).transpose(0, 1)


def listed(model: Any) -> list[Any]:
    """The stages of a model that a rank has."""
    return model if isinstance(model, list) else [model]


class Norm(torch.nn.Module):
    """No layer is one."""


def _module(name: str, **names: object) -> None:
    module = types.ModuleType(f"apex.{name}")
    module.__path__ = []
    vars(module).update(names)
    sys.modules[module.__name__] = module


_module("optimizers", FusedAdam=FusedAdam, FusedLAMB=None)
_module("multi_tensor_apply", multi_tensor_applier=multi_tensor_applier)
_module("normalization", MixedFusedRMSNorm=Norm)
_module("normalization.fused_layer_norm", FusedLayerNorm=Norm)
_module("transformer")
_module("transformer.enums", AttnMaskType=types.SimpleNamespace(padding=1, causal=2))
_module("transformer.functional", fused_apply_rotary_pos_emb=rotary, fused_apply_rotary_pos_emb_thd=None)
_module("transformer.layers")
_module("transformer.layers.layer_norm", FastLayerNorm=Norm)
_module("transformer.pipeline_parallel")
_module("transformer.pipeline_parallel.schedules")
_module("transformer.pipeline_parallel.schedules.common", listify_model=listed)
_module("transformer.tensor_parallel")
_module(
    "transformer.tensor_parallel.layers",
    set_defaults_if_not_set_tensor_model_parallel_attributes=set_defaults,
)
_module("contrib")
_module("contrib.optimizers")
_module(
    "contrib.optimizers.distributed_fused_adam",
    DistributedFusedAdam=DistributedFusedAdam,
    _disable_pre_forward_hook=None,
    _multi_tensor_copy=None,
)
