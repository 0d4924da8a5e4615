"""transformers-serve: ``transformers serve`` with continuous batching, and this
package's client beside it.

A server for tests and for machines without another one: it serves a Llama with random
weights, which it writes before. The client prints and writes results in the form of
vLLM's (`benchrun.worker.serving.client`).
"""

from collections.abc import Iterator
from typing import Any

from benchrun.runspec.inference import InferenceSpec

from .base import Server
from .vllm import VLLM_IMAGES

BLOCK = 32
"""Tokens of a block of the cache."""


class TransformersServe(Server):
    """One process on one GPU, or on the CPU."""

    name = "transformers-serve"
    precisions = frozenset({"fp32", "bf16"})
    needs_gpu = False
    experts = False
    images = VLLM_IMAGES  # they have transformers, and what its server imports
    options_of_server = ("max_num_batched_tokens",)

    def configuration(self, spec: InferenceSpec) -> dict[str, Any]:
        """``blocks``: of the cache, enough for every sequence; ``batched_tokens`` of a
        forward pass.
        """
        sequence = -(-(spec.input_tokens + spec.output_tokens) // BLOCK) + 1
        return {
            "block": BLOCK,
            "blocks": (spec.most_seqs + 1) * sequence,
            "batched_tokens": spec.max_num_batched_tokens or max(256, 2 * spec.input_tokens),
        }

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Apply the usual rules and two more: one GPU, and the layers of a Llama."""
        yield from super().refusals(spec)
        if spec.num_gpus > 1:
            yield f"{self.name} uses one GPU: num_gpus ({spec.num_gpus}) must be 1"
        if spec.checkpoint is not None:
            yield f"{self.name} serves random weights: checkpoint must be null"
