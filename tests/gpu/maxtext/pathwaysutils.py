"""MaxText imports a package of this name at its start. Here it lets MaxText of January 2025 run with JAX of 2026.

- Three names of JAX that have been removed since come back, as what replaced them.
- ``with mesh:`` also sets the mesh as JAX and flax read it now: without, flax drops every sharding that MaxText states,
  and the step does not compile for several GPUs.
- Two switches that this XLA no longer has leave XLA_FLAGS: XLA ends a process that states an unknown one.
- Transformer-engine's attention becomes JAX's call of cuDNN's fused attention: no wheel of the former for JAX is
  published. The synthetic sequences are whole, so the mask is the causal one.
"""

import contextlib
import math
import os
import sys
import types

import jax
import jax.extend.backend
from jax.sharding import Mesh

RETIRED = ("--xla_gpu_graph_level=", "--xla_gpu_enable_triton_softmax_fusion=")

jax.tree_map = jax.tree.map
jax.spmd_mode = lambda mode: contextlib.nullcontext()
jax.lib.xla_bridge = types.SimpleNamespace(get_backend=jax.extend.backend.get_backend)
os.environ["XLA_FLAGS"] = " ".join(
    flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(RETIRED)
)
_contexts: list[contextlib.AbstractContextManager[object]] = []


def _enter(mesh: Mesh) -> Mesh:
    _contexts.append(jax.set_mesh(mesh))
    _contexts[-1].__enter__()
    return mesh


Mesh.__enter__ = _enter
Mesh.__exit__ = lambda mesh, *error: _contexts.pop().__exit__(*error)


class DotProductAttention:
    """Causal attention, grouped, of tensors as [batch, sequence, heads, head size]."""

    def __init__(self, *, head_dim: int, attn_mask_type: str, scale_factor: float, **others: object) -> None:
        if attn_mask_type not in ("causal", "padding_causal") or others["attention_dropout"]:
            raise ValueError(f"only causal attention without dropout: {attn_mask_type}, {others['attention_dropout']}")
        if not math.isclose(scale_factor, head_dim**-0.5):
            raise ValueError(f"only the usual scale of the scores: {scale_factor}")

    def __call__(self, query: jax.Array, key: jax.Array, value: jax.Array, mask: object = None) -> jax.Array:
        kernel = "cudnn" if jax.default_backend() == "gpu" else "xla"
        return jax.nn.dot_product_attention(query, key, value, is_causal=True, implementation=kernel)


attention = types.ModuleType("transformer_engine.jax.flax.transformer")
attention.DotProductAttention = DotProductAttention
sys.modules[attention.__name__] = attention
