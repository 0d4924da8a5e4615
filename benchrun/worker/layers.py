"""Layers that megatron.core has only with transformer-engine, in plain torch.

Norms with sequence parallelism, and attention with context parallelism.
"""

from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from megatron.core.tensor_parallel.layers import set_tensor_model_parallel_attributes
from torch import Tensor


class Norm(torch.nn.Module):
    """RMSNorm or LayerNorm over the last dimension."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__()
        self.eps = eps
        self.offset = 1.0 if config.layernorm_zero_centered_gamma else 0.0
        self.weight = torch.nn.Parameter(
            torch.full((hidden_size,), 1.0 - self.offset, dtype=config.params_dtype)
        )
        self.bias = None
        if config.normalization == "LayerNorm":
            self.bias = torch.nn.Parameter(torch.zeros(hidden_size, dtype=config.params_dtype))
        for parameter in self.parameters():
            # megatron.core sums the gradients of marked weights over the
            # tensor-parallel ranks.
            parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> Tensor:
        """Input and output: [..., hidden_size]."""
        weight = self.weight + self.offset
        if self.bias is None:
            return torch.nn.functional.rms_norm(x, self.weight.shape, weight, self.eps)
        return torch.nn.functional.layer_norm(x, self.weight.shape, weight, self.bias, self.eps)


class Attention(torch.nn.Module):
    """Causal attention by torch's kernel, with grouped queries and sliding windows.

    Context-parallel rank r of c has chunks r and 2c-1-r of the sequence, for equal
    work; keys and values are gathered.
    """

    def __init__(
        self,
        config: Any,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        softmax_scale: float | None = None,
        **_: Any,
    ) -> None:
        super().__init__()
        self.cp, self.scale = config.context_parallel_size, softmax_scale
        every = config.window_attn_skip_freq
        windowed = config.window_size is not None and (every is None or layer_number % every != 0)
        self.window = config.window_size[0] + 1 if windowed else None
        self.softmax_offset = None
        if config.softmax_type == "learnable":
            heads = config.num_attention_heads // config.tensor_model_parallel_size
            self.softmax_offset = torch.nn.Parameter(torch.zeros(heads, dtype=config.params_dtype))
            set_tensor_model_parallel_attributes(
                self.softmax_offset, is_parallel=True, dim=0, stride=1
            )

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Tensor:
        """Attend: from [sequence, batch, heads, width] (fewer heads in key and value)
        to [sequence, batch, heads * width].
        """
        mask = None
        if self.cp > 1 or self.window is not None or self.softmax_offset is not None:
            of_queries, of_keys = self._positions(query.shape[0])
            if self.cp > 1:
                group = parallel_state.get_context_parallel_group()
                key, value = (
                    gather_from_sequence_parallel_region(x, group=group) for x in (key, value)
                )
            # Keys stay in the order of the ranks: a mask by position needs no other.
            back = of_queries[:, None] - of_keys[None, :]
            mask = ((back >= 0) & (back < (self.window or back.numel()))).to(query.device)
        q, k, v = query.permute(1, 2, 0, 3), key.permute(1, 2, 0, 3), value.permute(1, 2, 0, 3)
        if self.softmax_offset is not None:
            assert mask is not None
            k, v, mask = self._with_sink(k, v, mask)
        out = torch.nn.functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            is_causal=mask is None,
            scale=self.scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        return out.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)

    def _with_sink(self, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add one more key, whose score is the head's sink and whose value is zero: it
        only takes attention away.
        """
        assert self.softmax_offset is not None
        shape = (1, len(self.softmax_offset), mask.shape[0], 1)
        open_ = torch.zeros_like(mask, dtype=key.dtype)
        scores = open_.masked_fill(~mask, float("-inf")).expand(*shape[:3], -1)
        sink = self.softmax_offset.to(key.dtype).view(1, -1, 1, 1).expand(shape)
        key, value = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (key, value))
        return key, value, torch.cat([scores, sink], -1)

    def _positions(self, here: int) -> tuple[Tensor, Tensor]:
        """Positions in the sequence of this rank's ``here`` queries, and of all keys."""
        every = [chunk_positions(here * self.cp, self.cp, rank) for rank in range(self.cp)]
        rank = 0
        if self.cp > 1:
            rank = parallel_state.get_context_parallel_group().rank()
        return every[rank], torch.cat(every)


def own_expert_outputs(chunk: Any) -> None:
    """Let the experts of ``chunk`` add their biases: megatron.core adds them in place,
    to a view that forbids it.

    The view is that of a reduction over a single rank, so several ranks an expert have
    none.
    """
    for name, module in chunk.named_modules():
        if ".local_experts." in name and name.endswith("linear_fc2"):
            module.register_forward_hook(lambda _, __, output: (output[0].clone(), output[1]))


def chunk_positions(seq_length: int, cp: int, rank: int) -> Tensor:
    """Positions in the sequence of context-parallel ``rank`` of ``cp``, in its order."""
    if cp == 1:
        return torch.arange(seq_length)
    chunks = torch.arange(seq_length).chunk(2 * cp)
    return torch.cat([chunks[rank], chunks[2 * cp - 1 - rank]])
