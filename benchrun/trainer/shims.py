"""Two gaps between megatron.core 0.19 and transformer-engine 2.11, closed before megatron.core is imported.

Each would cost speed silently: the output layer's gradients would be added by a kernel of their own, and the gradient
norm computed tensor by tensor, waiting for the GPU at each.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import torch
from torch import Tensor

WGRAD = "fused_weight_gradient_mlp_cuda"
"""The module of APEX that megatron.core's own linear layers ask for their weight gradients."""


def install() -> None:
    """Close the gaps. Without a GPU or transformer-engine there are none."""
    if not torch.cuda.is_available() or importlib.util.find_spec("transformer_engine") is None:
        return
    if importlib.util.find_spec(WGRAD) is None:
        module = ModuleType(WGRAD)
        module.wgrad_gemm_accum_fp32 = wgrad_fp32  # type: ignore[attr-defined]
        module.wgrad_gemm_accum_fp16 = wgrad_16_bit  # type: ignore[attr-defined]
        sys.modules[WGRAD] = module
    optimizers = importlib.import_module("transformer_engine.pytorch.optimizers")
    if not hasattr(optimizers, "multi_tensor_scale_tensor"):
        # megatron.core 0.19 imports this name together with others and, if one is missing, uses slow versions of all.
        # It accepts None, because APEX lacks it as well.
        optimizers.multi_tensor_scale_tensor = None  # type: ignore[attr-defined]


def wgrad_fp32(inputs: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
    """main_grad += grad_output^T inputs, summed in FP32. [tokens, in], [tokens, out], [out, in] (FP32, in place)."""
    if main_grad.is_cuda:
        torch.addmm(main_grad, grad_output.t(), inputs, out_dtype=torch.float32, out=main_grad)
    else:  # torch has no such product on CPUs
        main_grad.addmm_(grad_output.t().float(), inputs.float())


def wgrad_16_bit(inputs: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
    """The same where the gradient is kept in the precision of the inputs: one rounding a product and sum."""
    main_grad.addmm_(grad_output.t(), inputs)
