"""SGLang: ``sglang.launch_server``, and ``sglang.bench_serving`` beside it.

Options as in InferenceMAX's script of release 0.5.7 for one node of H200. Its prompts
are random token ids, which need no download. Attention is data-parallel if dp is above
1 and the experts are spread; then its tp is the number of GPUs.
"""

import re
from collections.abc import Iterator
from typing import Any

from benchrun.frameworks.base import ImageFamily
from benchrun.runspec.inference import InferenceSpec

from .base import Server

OF_DECODING = (0, 5, 23)
"""The first release that was read in which the largest batch of CUDA graphs is an
option of decoding alone.
"""


class Sglang(Server):
    """Its random lengths go from a share of the longest to the longest."""

    name = "sglang"
    images = ImageFamily("SGLang", r"sglang|lmsysorg")
    goodput = False

    def configuration(self, spec: InferenceSpec) -> dict[str, Any]:
        """``tensor_parallel``: the number that its option of this name takes;
        ``graphs``: a name in this release.
        """
        shared = spec.ep > 1 and spec.dp > 1
        graphs = "--cuda-graph-max-bs" + ("-decode" if _release(spec.image) >= OF_DECODING else "")
        ranks = spec.tp * spec.dp if shared else spec.tp
        return {"dp_attention": shared, "tensor_parallel": ranks, "graphs": graphs}

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Apply the usual rules and one more: replicas of a model with experts would
        each hold all of them.
        """
        yield from super().refusals(spec)
        if spec.pp > 1:
            yield f"benchrun supports {self.name} without pp: pp ({spec.pp}) must be 1"


def _release(image: str | None) -> tuple[int, ...]:
    """The release in an image's name, e.g. (0, 5, 7) in ``lmsysorg/sglang:v0.5.7``;
    empty if it states none.
    """
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", (image or "").rpartition("/")[2])
    if not match:
        return ()
    return tuple(map(int, match.groups()))
