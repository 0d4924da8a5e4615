"""Layers that megatron.core has only with transformer-engine, in plain torch.

Norms with sequence parallelism, and attention with context parallelism.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state
from torch import Tensor


class Norm(torch.nn.Module):
    """RMSNorm or LayerNorm over the last dimension."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__()
        self.eps = eps
        self.offset = 1.0 if config.layernorm_zero_centered_gamma else 0.0
        self.weight = torch.nn.Parameter(torch.full((hidden_size,), 1.0 - self.offset, dtype=config.params_dtype))
        self.bias = None
        if config.normalization == "LayerNorm":
            self.bias = torch.nn.Parameter(torch.zeros(hidden_size, dtype=config.params_dtype))
        for parameter in self.parameters():
            # megatron.core sums the gradients of marked weights over the tensor-parallel ranks.
            parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> Tensor:
        """Input and output: [..., hidden_size]."""
        weight = self.weight + self.offset
        if self.bias is None:
            return torch.nn.functional.rms_norm(x, self.weight.shape, weight, self.eps)
        return torch.nn.functional.layer_norm(x, self.weight.shape, weight, self.bias, self.eps)


class Attention(torch.nn.Module):
    """Causal attention by torch's kernel, with grouped queries.

    Context-parallel rank r of c has chunks r and 2c-1-r of the sequence, for equal work; keys and values are gathered.
    """

    def __init__(self, config: Any, layer_number: int, attn_mask_type: Any, attention_type: str, **_: Any) -> None:
        super().__init__()
        self.cp = config.context_parallel_size

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Tensor:
        """From [sequence, batch, heads, width] (fewer heads in key and value) to [sequence, batch, heads * width]."""
        mask = None
        if self.cp > 1:
            key, value = (_whole_sequence(x, self.cp) for x in (key, value))
            positions = chunk_positions(key.shape[0], self.cp, parallel_state.get_context_parallel_rank())
            mask = positions[:, None] >= torch.arange(key.shape[0])[None, :]
            mask = mask.to(query.device)
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=q.shape[1] != k.shape[1]
        )
        return out.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)


def chunk_positions(seq_length: int, cp: int, rank: int) -> Tensor:
    """Positions in the sequence of context-parallel ``rank`` of ``cp``, in its order."""
    chunks = torch.arange(seq_length).chunk(2 * cp)
    return torch.cat([chunks[rank], chunks[2 * cp - 1 - rank]])


def _whole_sequence(x: Tensor, cp: int) -> Tensor:
    parts = _Gather.apply(x)  # type: ignore[no-untyped-call]
    halves = [half for part in parts for half in part.chunk(2)]
    order = [position for rank in range(cp) for position in (rank, 2 * cp - 1 - rank)]
    return torch.cat([half for _, half in sorted(zip(order, halves, strict=True), key=lambda pair: pair[0])])


class _Gather(torch.autograd.Function):
    """All-gather over the context-parallel ranks; backward sums the gradients of this rank's part."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        group = parallel_state.get_context_parallel_group()
        parts = [torch.empty_like(x) for _ in range(group.size())]
        torch.distributed.all_gather(parts, x.contiguous(), group=group)
        return torch.stack(parts)

    @staticmethod
    def backward(_: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        grad = grad.contiguous()
        torch.distributed.all_reduce(grad, group=parallel_state.get_context_parallel_group())
        return grad[parallel_state.get_context_parallel_rank()]
