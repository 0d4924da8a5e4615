"""Every framework that benchrun can launch, by name. To add one: a class, its template, one line here."""

from collections.abc import Callable

from benchrun.capabilities.nodes.framework import NodeCheck
from benchrun.capabilities.rl.frameworks.nemo_aligner import NemoAligner
from benchrun.capabilities.rl.frameworks.nemo_rl import NemoRL
from benchrun.capabilities.rl.frameworks.trl import Trl
from benchrun.capabilities.serving.frameworks.sglang import Sglang
from benchrun.capabilities.serving.frameworks.transformers_serve import TransformersServe
from benchrun.capabilities.serving.frameworks.trtllm import TensorRT
from benchrun.capabilities.serving.frameworks.vllm import Vllm
from benchrun.errors import UserError, closest
from benchrun.frameworks.base import Framework
from benchrun.frameworks.hf.framework import HuggingFace
from benchrun.frameworks.maxtext.framework import MaxText
from benchrun.frameworks.megatron.framework import MegatronLM
from benchrun.frameworks.megatron_core.framework import MegatronCore
from benchrun.frameworks.nemo1.framework import NeMo1
from benchrun.frameworks.nemo2.framework import MegatronBridge, NeMo2
from benchrun.frameworks.paxml.framework import PaXML

FRAMEWORKS: dict[str, Framework] = {}
CHECKS: dict[str, Framework] = {NodeCheck.name: NodeCheck()}
"""Programs of this package that a job runs in the place of a framework. No recipe can name them."""


def register(framework: Framework) -> None:
    """Add ``framework``, or replace the one of its name."""
    FRAMEWORKS[framework.name] = framework


for _kind in (
    *(MegatronCore, MegatronLM, NeMo1, NeMo2, MegatronBridge, HuggingFace, MaxText, PaXML),
    *(Vllm, Sglang, TensorRT, TransformersServe),
    *(NemoRL, NemoAligner, Trl),
):
    register(_kind())


def framework(name: str) -> Framework:
    """The framework called ``name``. UserError with the closest names where there is none."""
    programs = FRAMEWORKS | CHECKS
    if name not in programs:
        raise UserError(f"no framework is called '{name}'", hint=closest(name, FRAMEWORKS))
    return programs[name]


def names(can: Callable[[Framework], bool] = lambda framework: True) -> list[str]:
    """The names of the frameworks for which ``can`` holds, sorted."""
    return sorted(name for name, framework in FRAMEWORKS.items() if can(framework))
