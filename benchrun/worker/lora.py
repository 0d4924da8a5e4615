"""LoRA on megatron.core: every weight is frozen, and two thin matrices beside each
chosen linear layer are trained."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, linear

from benchrun.model.adapters import MEGATRON_LINEARS
from benchrun.runspec.spec import TrainingSpec

from .data import seed_of
from .device import weight_type


class Adapter(torch.nn.Module):
    """``alpha / rank * outer @ inner``: adds nothing until the first update, because
    ``outer`` begins with zeros."""

    def __init__(
        self, spec: TrainingSpec, name: str, inputs: int, outputs: int, dtype: torch.dtype
    ) -> None:
        super().__init__()
        lora = spec.training.lora
        self.scale, self.dropout = lora.alpha / lora.rank, lora.dropout
        generator = torch.Generator().manual_seed(seed_of(spec.training.seed, name))
        # The standard deviation of peft's uniform distribution; here normal.
        inner = torch.empty(lora.rank, inputs).normal_(
            0, 1 / math.sqrt(3 * inputs), generator=generator
        )
        self.inner = torch.nn.Parameter(inner.to(dtype))
        self.outer = torch.nn.Parameter(torch.zeros(outputs, lora.rank, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the adapter, from [..., inputs] to [..., outputs]."""
        return linear(
            linear(dropout(x, self.dropout, self.training), self.inner) * self.scale, self.outer
        )


def install(spec: TrainingSpec, chunk: Any) -> None:
    """Freeze the weights of ``chunk`` (a GPTModel) and give its chosen linear layers
    adapters."""
    for parameter in chunk.parameters():
        parameter.requires_grad_(False)
    if needs_gradient(spec):
        chunk.embedding.register_forward_hook(_with_gradient)
    targets = spec.training.lora.target_modules or MEGATRON_LINEARS
    for layer in chunk.decoder.layers:
        for owner in (layer.self_attention, layer.mlp):
            for name in MEGATRON_LINEARS:
                if name in targets and hasattr(owner, name):
                    _adapt(
                        spec,
                        getattr(owner, name),
                        f"decoder.layers.{layer.layer_number - 1}.{name}.adapter",
                    )


def needs_gradient(spec: TrainingSpec) -> bool:
    """Whether the input of the first layer must have a gradient, although nothing
    before it is trained.

    megatron.core captures the backward pass of a layer from the gradients of its
    inputs, and a layer that is computed again has a backward pass only if one of its
    inputs has a gradient.
    """
    return spec.training.cuda_graphs != "none" or spec.training.recompute.granularity == "full"


def _with_gradient(module: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    """The output of a frozen module as the start of a backward pass."""
    return output.requires_grad_()


def _adapt(spec: TrainingSpec, module: Any, name: str) -> None:
    outputs, inputs = module.weight.shape
    dtype = weight_type(spec.precision)
    module.add_module("adapter", Adapter(spec, name, inputs, outputs, dtype))
    if hasattr(module, "layer_norm_weight"):
        # transformer-engine's norm is a part of this layer: the adapter needs its
        # output, not the layer's input.
        module.return_layernorm_output = True
    module.register_forward_hook(_with_adapter)


def _with_adapter(module: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> tuple[Any, Any]:
    """The layer's output and bias, with the adapter's output added."""
    if not getattr(module, "return_layernorm_output", False):
        result, bias = output
        x = inputs[0]
    elif len(output) == 3:  # a bias that megatron.core adds later
        result, bias, x = output
    else:
        (result, x), bias = output
    return result + module.adapter(x), bias
