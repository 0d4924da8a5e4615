"""Kernels that replace some of megatron.core's, each by a field of the specification;
on GPUs with transformer-engine.

``install`` runs once, after megatron.core is imported and before the model is built.
"""

import functools
import importlib
import sys
from typing import Any

import torch
from torch import Tensor

from benchrun.runspec.spec import TrainingSpec

from .te import WGRAD


def install(spec: TrainingSpec) -> None:
    """Put the kernels of ``spec`` in place."""
    if spec.training.swiglu == "transformer_engine":
        _swiglu_of_transformer_engine()
    if spec.precision == "fp8" and spec.training.fp8.fast_gradients:
        recipe = importlib.import_module("transformer_engine.common.recipe")
        fast = recipe.MMParams(use_split_accumulator=False)
        # Layers ask the recipe for these two; delayed scaling has none, and then they
        # take the slower sum.
        recipe.DelayedScaling.fp8_gemm_dgrad = recipe.DelayedScaling.fp8_gemm_wgrad = fast


def _swiglu_of_transformer_engine() -> None:
    """Compute SwiGLU without a bias by transformer-engine's kernels; megatron.core has
    torch compile it."""
    extension: Any = importlib.import_module("transformer_engine_torch")
    fused: Any = importlib.import_module("megatron.core.fusions.fused_bias_swiglu")

    class Swiglu(torch.autograd.Function):
        """[tokens, 2 * width] -> [tokens, width]. The arguments after the first are
        megatron.core's, and false here."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, *_: bool) -> Tensor:
            ctx.save_for_backward(x)
            y: Tensor = extension.swiglu(x, None)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
            return extension.dswiglu(grad.contiguous(), *ctx.saved_tensors, None), None, None

    fused.SwiGLUFunction = Swiglu


class LateScale:
    """The loss's scale (1 / tokens of a step), applied behind the logits' gradient
    instead of to it.

    transformer-engine's loss multiplies the gradient of all logits by one number, a
    pass over the largest tensor of a model with a large vocabulary. The output layer's
    two products are linear in that gradient, so the number is applied to tensors of the
    hidden size: to the gradient of the layer's input, and to the input before the
    weight gradient.
    """

    def __init__(self) -> None:
        self.scale: Tensor | None = None
        """Scale of the micro-batch whose backward pass runs, on the device."""

    def install(self, output_layer: Any) -> None:
        """Let ``output_layer`` and transformer-engine's loss work this way."""
        output_layer.register_forward_pre_hook(self.before_output_layer)
        loss: Any = importlib.import_module("transformer_engine.pytorch.triton.cross_entropy")
        loss.cross_entropy_backward = self.logits_gradient
        for name in ("wgrad_gemm_accum_fp32", "wgrad_gemm_accum_fp16"):
            setattr(
                sys.modules[WGRAD], name, self.weight_gradient(getattr(sys.modules[WGRAD], name))
            )

    def before_output_layer(self, _: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The layer's inputs; the first one's gradient will be scaled."""
        return _Scaled.apply(inputs[0], self), *inputs[1:]

    def logits_gradient(self, gradient: Tensor, of_losses: Tensor, *_: Any) -> Tensor:
        """The gradient of the logits for losses that each count 1. ``of_losses``: what
        each counts, all the same."""
        self.scale = of_losses.reshape(-1)[0]
        return gradient

    def weight_gradient(self, add: Any) -> Any:
        """``add``, which adds the product of input and gradient to the weight's
        gradient, with the input scaled."""

        @functools.wraps(add)
        def scaled(inputs: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
            add(inputs if self.scale is None else inputs * self.scale, grad_output, main_grad)

        return scaled


class _Scaled(torch.autograd.Function):
    """The identity; the gradient is multiplied by the scale of `LateScale`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, late: LateScale) -> Tensor:
        ctx.late = late
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        scale = ctx.late.scale
        return grad if scale is None else grad * scale, None
