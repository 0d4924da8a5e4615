"""LoRA adapters: the linear layers that have one, by the names of the libraries that
add them."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from .operators import operators
from .shape import ModelShape

Names = Mapping[str, tuple[str, ...]]
MEGATRON: Names = {
    "qkv": ("linear_qkv",),
    "proj": ("linear_proj",),
    "fc1": ("linear_fc1",),
    "fc2": ("linear_fc2",),
}
"""A product of the operator list -> its names in Megatron-Bridge and NeMo: one layer
each."""
TRANSFORMERS: Names = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "proj": ("o_proj",),
    "fc1": ("gate_proj", "up_proj"),
    "fc2": ("down_proj",),
}
"""Product -> its names in a Llama of transformers, which has a layer for each part of a
fused product."""
MEGATRON_LINEARS = tuple(chain.from_iterable(MEGATRON.values()))
"""The linear layers of a block, as megatron.core names them."""
LLAMA_LINEARS = tuple(chain.from_iterable(TRANSFORMERS.values()))
"""The linear layers of a Llama's block, as transformers names them."""


def adapted(
    model: ModelShape, names: Names, targets: Collection[str]
) -> Iterator[tuple[float, float]]:
    """(inputs, outputs) of each adapted layer of a block; of all of them if
    ``targets`` names none."""
    whole = operators(model)
    widths = {}
    for name, layers in names.items():
        product = whole.product(name)
        outputs = product.outputs if len(layers) > 1 else (product.n,)
        for layer, output in zip(layers, outputs, strict=True):
            widths[layer] = (product.k, output)
    chosen = [name for name in targets if name in widths]
    return map(widths.__getitem__, chosen or widths)


def adapter_params(model: ModelShape, names: Names, targets: Collection[str], rank: int) -> float:
    """Adapter parameters of a block: rank x (inputs + outputs) of each adapted
    layer."""
    return rank * sum(inputs + outputs for inputs, outputs in adapted(model, names, targets))
