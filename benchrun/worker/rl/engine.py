"""vLLM in the policy's process and on its GPU; it gets the policy's weights before each
generation."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchrun.errors import UserError
from benchrun.runspec.post_training import PostTrainingSpec


def options(spec: PostTrainingSpec) -> dict[str, Any]:
    """trl's arguments for the engine of ``spec``."""
    if spec.generation.engine != "vllm":
        return {}
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": spec.generation.memory_share,
        "vllm_max_model_length": spec.max_sequence_length,
    }


def load(spec: PostTrainingSpec) -> None:
    """Import vLLM if it generates. UserError if it is not installed."""
    if spec.generation.engine != "vllm":
        return
    try:
        import vllm  # noqa: F401
    except ImportError as error:
        hint = "pip install vllm, in a release that the installed trl supports, or generation.engine=transformers"
        raise UserError(f"generation by vllm: {error}", hint=hint) from error


@contextmanager
def described(spec: PostTrainingSpec, model: Any, tokenizer: Any) -> Iterator[None]:
    """While the trainer starts vLLM: a folder with the configuration and the tokenizer
    of ``model``, which it reads.

    vLLM makes weights of its own (``dummy``). trl replaces them with the policy's
    before the first response.
    """
    if spec.generation.engine != "vllm":
        yield
        return
    from trl.generation import vllm_generation
    from vllm import LLM

    with tempfile.TemporaryDirectory(prefix="benchrun-") as folder:
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model.name_or_path = folder
        vllm_generation.LLM = partial(LLM, load_format="dummy")  # trl has no argument for it
        yield
