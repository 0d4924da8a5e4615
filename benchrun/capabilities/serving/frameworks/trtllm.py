"""TensorRT-LLM: ``trtllm-bench throughput``, which has no server: its requests wait in
a queue.

Options as in TensorRT-LLM's guide to DeepSeek-R1 and its overview of performance. One
rank per GPU, started by srun with PMIx; the prompts are written once before.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from benchrun.frameworks.base import ImageFamily
from benchrun.runspec.image_names import is_path
from benchrun.runspec.inference import InferenceSpec

from .base import Server

OWN_SECTIONS = ("cuda_graph_config", "kv_cache_config")
"""Sections of the options file whose values follow from inputs of the recipe."""


class TensorRT(Server):
    """Data-parallel attention with the experts spread, or tensor and pipeline
    parallelism.
    """

    name = "trtllm"
    serves = False
    prepares = True
    random_weights = False
    tasks = frozenset({"offline"})
    needs_slurm = True
    precisions = frozenset({"bf16", "fp8", "nvfp4"})
    images = ImageFamily("TensorRT-LLM", r"tensorrt-?llm|trt-?llm")
    options_of_server = ("kv_cache", "max_num_batched_tokens")
    goodput = False
    step_lines = ("= PERFORMANCE OVERVIEW",)
    files = ("trtllm.yml",)
    rank_variables = (
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "SLURM_LOCALID",
        "SLURM_NNODES",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_NUM_TASKS",
    )

    def configuration(self, spec: InferenceSpec) -> dict[str, Any]:
        """``attention_dp``: the experts are spread over all GPUs; ``model``: a folder's
        last part, or a hub's name.
        """
        shared = spec.dp > 1
        folder = is_path(spec.weights)
        checkpoint = spec.weights.rstrip("/")
        seqs = -(-spec.most_seqs // spec.dp)
        return {
            "attention_dp": shared,
            "tensor_parallel": spec.tp * spec.dp if shared else spec.tp,
            "batch": seqs,
            "model": checkpoint.rpartition("/")[2] if folder else checkpoint,
            "longest": spec.input_tokens + spec.output_tokens,
            "options": [option for option in spec.server_options if not _is_of_section(option)],
            "sections": _sections(spec),
        }

    def refusals(self, spec: InferenceSpec) -> Iterator[str]:
        """Apply the usual rules and two more: dp is that of attention, and there are no
        arrivals.
        """
        yield from super().refusals(spec)
        if spec.dp > 1 and spec.ep == 1:
            yield f"{self.name} has no replicas: dp ({spec.dp}) must be 1, or ep tp * dp ({spec.tp * spec.dp})"
        if spec.request_rate is not None:
            yield f"{self.name} sends all requests at once: request_rate must be null"
        for section in OWN_SECTIONS:
            if section in _sections(spec):
                yield f"{section} follows from kv_cache and max_num_seqs: leave it out of server_options"


def _is_of_section(option: str) -> bool:
    """Whether it is one of a section of the options file:
    ``--moe_config.backend=CUTLASS``.
    """
    return "." in option.partition("=")[0]


def _sections(spec: InferenceSpec) -> dict[str, dict[str, Any]]:
    """Section of the options file -> name -> value."""
    found: dict[str, dict[str, Any]] = {}
    for option in filter(_is_of_section, spec.server_options):
        path, _, value = option.removeprefix("--").partition("=")
        section, _, name = path.partition(".")
        found.setdefault(section, {})[name] = yaml.safe_load(value)
    return found
