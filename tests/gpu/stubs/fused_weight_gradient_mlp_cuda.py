"""APEX's kernel for the weight gradient of the output layer, as the one product of cuBLAS that it is.

Megatron's layers ask for a module of this name. APEX has no wheel; NVIDIA's containers have it.
"""

import torch
from torch import Tensor


def wgrad_gemm_accum_fp32(inputs: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
    """main_grad += grad_output^T inputs, summed in FP32. [tokens, in], [tokens, out], [out, in] (FP32, in place)."""
    torch.addmm(main_grad, grad_output.t(), inputs, out_dtype=torch.float32, out=main_grad)


def wgrad_gemm_accum_fp16(inputs: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
    """The same for gradients in the precision of the inputs."""
    main_grad.addmm_(grad_output.t(), inputs)
