"""APEX's kernels over lists of tensors, from transformer-engine: see apex.py."""

from transformer_engine.pytorch.optimizers import multi_tensor_l2norm, multi_tensor_scale

__all__ = ["multi_tensor_l2norm", "multi_tensor_scale"]
