"""vLLM: ``vllm serve``, and ``vllm bench serve`` beside it. Options read in release
0.32.0.
"""

from collections.abc import Iterator
from typing import Any

from benchrun.frameworks.base import ImageFamily
from benchrun.runspec.inference import InferenceSpec

from .base import Server

MARGIN = 20
"""Tokens more than prompt and answer: special ones."""

VLLM_IMAGES = ImageFamily("vLLM", r"vllm")


class Vllm(Server):
    """Its random lengths lie around a mean, so that the shortest and the longest are
    computed from it.
    """

    name = "vllm"
    needs_gpu = False
    precisions = frozenset({"fp32", "bf16", "fp8"})
    images = VLLM_IMAGES

    def configuration(self, spec: InferenceSpec) -> dict[str, Any]:
        """``lengths``: mean lengths and the range ratio around them; ``dtype``: of
        activations; ``dummy``: the server makes random weights itself.
        """
        middle = (1 + spec.shortest) / 2
        longest = spec.input_tokens + spec.output_tokens
        return {
            "lengths": {
                "input": round(spec.input_tokens * middle),
                "output": round(spec.output_tokens * middle),
                "ratio": round((1 - spec.shortest) / (1 + spec.shortest), 6),
            },
            "longest": longest if self.writes_weights(spec) else longest + MARGIN,
            "dummy": self.writes_weights(spec) and self._deepseek(spec),
            "dtype": {"fp32": "float32", "bf16": "bfloat16"}.get(spec.precision, "auto"),
        }

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Apply the usual rules and two more: replicas or stages, and the precisions of
        a CPU.
        """
        yield from super().refusals(spec)
        if spec.gpu == "CPU" and spec.precision == "fp8":
            yield f"{self.name} on a CPU: precision must be fp32 or bf16, not fp8"
        if spec.dp > 1 and spec.pp > 1:
            yield f"benchrun supports {self.name} with dp or pp: one of dp ({spec.dp}) and pp ({spec.pp}) must be 1"

    def _deepseek(self, spec: InferenceSpec) -> bool:
        """Whether the model has the layers of a DeepSeek-V3."""
        model = spec.model
        return (
            model.mla is not None
            and model.moe is not None
            and model.moe.sigmoid
            and model.moe.expert_bias
        )

    def _without_checkpoint(self, spec: InferenceSpec) -> Iterator[str]:
        """A DeepSeek-V3 too, in bf16 or fp8: vLLM makes its weights."""
        if spec.gpu == "CPU" or spec.precision == "fp32" or not self._deepseek(spec):
            yield from super()._without_checkpoint(spec)
