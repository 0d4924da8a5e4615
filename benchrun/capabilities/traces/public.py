"""Names of a trace as they are published: those that libraries give, and numbers in
place of all others.
"""

import re
from pathlib import Path

from .kernels import pattern_of
from .loader import LOADER
from .ranges import unnumbered

WORDS = frozenset(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())
"""Words of libraries and of training: a name that has no other is published."""
OF_LIBRARIES = re.compile(
    r"(aten|c10|c10d|cub|nccl|gloo|prims|inductor|transformer_engine|flash_attn)::?\w+(::\w+)*|(nccl|nvte_|cu(da|blas|dnn))\w+"
    r"|## Call CompiledFxGraph \w+ ##"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class PublicNames:
    """One name for each name of a run, the same in all its traces and in their
    fingerprint.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}

    def of_range(self, name: str) -> str:
        """``name`` if it is a library's; else ``range_N``, or ``data_loader_N`` for a
        wait for data.
        """
        base = unnumbered(name)
        if is_known(base):
            return name
        return self._numbered("data_loader" if LOADER.search(base) else "range", base)

    def of_kernel(self, name: str) -> str:
        """``name`` if kernels.csv knows it, else ``kernel_N``, also of a name that is
        public already.
        """
        stays = pattern_of(name) or re.fullmatch(r"kernel_\d+", name)
        if stays:
            return name
        return self._numbered("kernel", name)

    def _numbered(self, kind: str, name: str) -> str:
        numbers = self._numbers.setdefault(kind, {})
        return f"{kind}_{numbers.setdefault(name, len(numbers) + 1)}"


def is_known(name: str) -> bool:
    """Whether ``name`` has nothing but names and words of libraries and of training."""
    return OF_LIBRARIES.fullmatch(name) is not None or all(
        word.lower() in WORDS for word in _WORD.findall(name)
    )
