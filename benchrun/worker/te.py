"""transformer-engine 2.11 with megatron.core 0.19: two missing functions, userbuffers,
and steps of FP8 weights.

``install`` runs before megatron.core is imported. Each gap would cost speed silently: a
separate kernel would add the output layer's gradients, and the gradient norm would be
computed tensor by tensor, waiting for the GPU at each.
"""

import importlib
import importlib.util
import os
import sys
from itertools import chain
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from benchrun.runspec.spec import TrainingSpec

WGRAD = "fused_weight_gradient_mlp_cuda"
"""The module of APEX that megatron.core's own linear layers ask for their weight
gradients."""


def install() -> None:
    """Close the gaps. Without a GPU or transformer-engine there are none."""
    if not torch.cuda.is_available() or importlib.util.find_spec("transformer_engine") is None:
        return
    if importlib.util.find_spec(WGRAD) is None:
        module = ModuleType(WGRAD)
        module.wgrad_gemm_accum_fp32 = module.wgrad_gemm_accum_fp16 = add_weight_gradient  # type: ignore[attr-defined]
        sys.modules[WGRAD] = module
    optimizers = importlib.import_module("transformer_engine.pytorch.optimizers")
    if not hasattr(optimizers, "multi_tensor_scale_tensor"):
        # megatron.core 0.19 imports this name together with others and, if one is
        # missing, uses slow versions of all. It accepts None, because APEX lacks it as
        # well.
        optimizers.multi_tensor_scale_tensor = None  # type: ignore[attr-defined]


def add_weight_gradient(inputs: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
    """main_grad += grad_output^T inputs, summed in the precision of main_grad, in
    place.

    [tokens, in], [tokens, out], [out, in].
    """
    if main_grad.dtype == inputs.dtype:
        main_grad.addmm_(grad_output.t(), inputs)
    elif main_grad.is_cuda:
        torch.addmm(main_grad, grad_output.t(), inputs, out_dtype=torch.float32, out=main_grad)
    else:  # torch has no such product on CPUs
        main_grad.addmm_(grad_output.t().float(), inputs.float())


def start_userbuffers(spec: TrainingSpec) -> None:
    """Allocate the buffers for tensor-parallel communication during matrix products,
    before the model is built."""
    # Use CUDA IPC instead of NVLink multicast, which not every machine allows.
    os.environ.setdefault("UB_SKIPMC", "1")
    from transformer_engine.pytorch.module import base

    modes = base.UserBufferQuantizationMode
    base.initialize_ub(
        shape=[spec.seq_length * spec.mbs // spec.layout.cp, spec.model.hidden_size],
        tp_size=spec.layout.tp,
        quantization_modes=[modes.FP8 if spec.precision == "fp8" else modes.NONE],
        bootstrap_backend="nccl",
    )


def optimizer_step(
    spec: TrainingSpec, optimizer: Any, model: list[Any]
) -> tuple[bool, float | None]:
    """``optimizer.step()``: whether the weights were updated, and the norm of the
    gradients."""
    # Not blockwise scaling, which has its own kernels.
    weights = []
    usage = []
    for parameter in chain.from_iterable(chunk.parameters() for chunk in model):
        if type(parameter).__name__ == "Float8Tensor" and parameter.requires_grad:
            weights.append(parameter)
    # A rank casts its part of a weight as a matrix of one row, and its transpose is
    # never used: it is made from the gathered weight. Skipping it saves 126 ms of a
    # step of 987 (H200, eight layers of Llama 2 7B).
    for weight in weights:
        usage.append(weight._quantizer.columnwise_usage)
        weight._quantizer.set_usage(columnwise=False)
    updated, grad_norm, _ = optimizer.step()
    for weight, columnwise in zip(weights, usage, strict=True):
        weight._quantizer.set_usage(columnwise=columnwise)
    if (
        weights
        and spec.training.optimizer.precision_aware
        and spec.training.fp8.recipe == "delayed"
    ):
        # The precision-aware Adam sets the inverse scale only on ranks that own a part
        # of the weight; the scales are the same on all ranks.
        inverses = torch.cat([weight._quantizer.scale.view(1) for weight in weights]).reciprocal()
        torch._foreach_copy_(
            [weight._scale_inv.view(1) for weight in weights], list(inverses.split(1))
        )
    return updated, grad_norm
