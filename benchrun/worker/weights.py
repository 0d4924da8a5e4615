"""Initial weights that do not depend on the layout: all layouts of a model start from
the same point."""

import math
import re
from typing import Any

import torch
from megatron.core import parallel_state

from benchrun.runspec.spec import TrainingSpec

from .data import seed_of

LARGEST = 100_000_000
"""Parameters: every rank draws each whole weight and keeps its part, which only small
models can afford."""


def layout_independent(spec: TrainingSpec) -> bool:
    """Whether the model is small enough for such weights."""
    return spec.model.params_total <= LARGEST


@torch.no_grad()
def initialise(spec: TrainingSpec, chunks: list[Any]) -> None:
    """Overwrite every matrix in this rank's model chunks; norms and biases keep their
    ones and zeros.

    Sinks and the router's biases, which megatron.core draws at random, get zeros.
    """
    for chunk in chunks:
        for name, parameter in chunk.named_parameters():
            if name.endswith(("softmax_offset", "router.bias")):
                parameter.zero_()
            elif parameter.dim() > 1:
                value = _weight(spec, chunk, name, parameter).to(parameter.dtype)
                parameter.copy_(value.to(parameter.device))
                if hasattr(parameter, "_high_precision_init_val"):
                    # The optimizer starts from this copy, which transformer-engine
                    # keeps for FP8 weights.
                    parameter._high_precision_init_val.copy_(value)


def _weight(spec: TrainingSpec, chunk: Any, name: str, parameter: torch.Tensor) -> torch.Tensor:
    """This rank's part of one matrix, drawn from the run's seed and the matrix's name."""
    name = _global_name(spec, chunk, name)
    expert = parallel_state.get_expert_tensor_parallel_group
    dense = parallel_state.get_tensor_model_parallel_group
    group = expert() if ".experts." in name else dense()
    shape = list(parameter.shape)
    dim = -1
    parts = 1
    if getattr(parameter, "tensor_model_parallel", False):
        dim = getattr(parameter, "partition_dim", -1)
    if dim >= 0:
        parts = group.size()
        shape[dim] *= parts
    std = spec.model.init_method_std
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        # The layers that write into the residual stream.
        std /= math.sqrt(2 * spec.model.num_layers)
    generator = torch.Generator().manual_seed(seed_of(spec.training.seed, name))
    whole = torch.empty(shape).normal_(0, std, generator=generator)
    if parts == 1:
        return whole
    # A rank holds its part of the gate, then its part of the up-projection.
    matrices = 1
    if spec.model.gated and name.endswith("linear_fc1.weight"):
        matrices = 2
    return torch.cat(
        [matrix.chunk(parts, dim)[group.rank()] for matrix in whole.chunk(matrices, dim)], dim
    )


def _global_name(spec: TrainingSpec, chunk: Any, name: str) -> str:
    """The parameter's name in the whole model: global layer and expert numbers, one
    name for tied embeddings."""
    name = name.removeprefix("module.")
    if layer := re.match(r"decoder\.layers\.(\d+)\.", name):
        number = chunk.decoder.layers[int(layer[1])].layer_number - 1
        name = f"decoder.layers.{number}.{name[layer.end() :]}"
    # Grouped experts have matrices weight0, weight1, ...; other experts are modules.
    name = re.sub(
        r"experts\.(linear_fc[12])\.weight(\d+)$", r"experts.local_experts.\2.\1.weight", name
    )
    if expert := re.search(r"local_experts\.(\d+)\.", name):
        moe = spec.model.moe
        local = (moe.num_experts if moe else 0) // spec.layout.ep
        number = int(expert[1]) + local * parallel_state.get_expert_model_parallel_rank()
        name = f"{name[: expert.start()]}experts.{number}.{name[expert.end() :]}"
    if spec.model.tied_embeddings and name == "output_layer.weight":
        return "embedding.word_embeddings.weight"
    return name
