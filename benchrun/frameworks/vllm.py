"""vLLM: ``vllm serve``, and ``vllm bench serve`` beside it. Options read in release 0.32.0."""

from collections.abc import Iterator
from typing import Any

from benchrun.frameworks.server import VLLM_IMAGES, Server
from benchrun.spec.inference import InferenceSpec


class Vllm(Server):
    """Its random lengths lie around a mean, so that the shortest and the longest are computed from it."""

    name = "vllm"
    images = VLLM_IMAGES

    def configuration(self, spec: InferenceSpec) -> dict[str, Any]:
        """``lengths``: mean lengths and the range ratio around them."""
        middle = (1 + spec.shortest) / 2
        return {
            "lengths": {
                "input": round(spec.input_tokens * middle),
                "output": round(spec.output_tokens * middle),
                "ratio": round((1 - spec.shortest) / (1 + spec.shortest), 6),
            },
            "longest": spec.input_tokens + spec.output_tokens + MARGIN,
        }

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Besides the usual rules: its data-parallel replicas are on one node."""
        yield from super().refusals(spec)
        if spec.dp > 1 and spec.pp > 1:
            yield f"benchrun supports {self.name} with dp or pp: one of dp ({spec.dp}) and pp ({spec.pp}) must be 1"


MARGIN = 20
"""Tokens more than prompt and answer: special ones."""
