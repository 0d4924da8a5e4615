"""SGLang: ``sglang.launch_server``, and ``sglang.bench_serving`` beside it.

Options as in InferenceMAX's script of release 0.5.7 for one node of H200. Its prompts are random token ids, which need
no download. Attention is data-parallel where dp is above 1 and the experts are spread; then its tp is the number of
GPUs.
"""

from collections.abc import Iterator
from typing import Any

from benchrun.frameworks.server import SGLANG_IMAGES, Server
from benchrun.spec.inference import InferenceSpec


class Sglang(Server):
    """Its random lengths go from a share of the longest to the longest."""

    name = "sglang"
    images = SGLANG_IMAGES
    goodput = False

    def configuration(self, spec: InferenceSpec) -> dict[str, Any]:
        """``tensor_parallel``: the number that its option of this name takes."""
        shared = spec.ep > 1 and spec.dp > 1
        return {"dp_attention": shared, "tensor_parallel": spec.tp * spec.dp if shared else spec.tp}

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Besides the usual rules: replicas of a model with experts would each hold all of them."""
        yield from super().refusals(spec)
        if spec.pp > 1:
            yield f"benchrun supports {self.name} without pp: pp ({spec.pp}) must be 1"
