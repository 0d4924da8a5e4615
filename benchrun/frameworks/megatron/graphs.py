"""CUDA graphs of the worker, as megatron.core's own arguments."""

from typing import Any

from benchrun.runspec.spec import TrainingSpec

_KINDS = {"layers": "local", "full_iteration": "full_iteration"}
"""``cuda_graphs`` -> megatron.core's name; it captures layers after the first step."""


def worker_graphs(spec: TrainingSpec) -> dict[str, Any]:
    """Arguments of the graphs; none if there are none."""
    kind = _KINDS.get(spec.training.cuda_graphs)
    if kind is None:
        return {}
    return {
        "cuda_graph_impl": kind,
        "cuda_graph_modules": _modules(spec),
        "use_te_rng_tracker": True,
    }


def _modules(spec: TrainingSpec) -> list[str]:
    """Parts of a layer that are graphs; all of it when empty. An expert's tokens vary,
    so if there are experts the usual part is the attention alone.
    """
    if spec.training.cuda_graphs == "full_iteration":
        return []
    usual = ["attn"] if spec.model.moe else []
    return [*spec.training.graph_scopes] or usual
