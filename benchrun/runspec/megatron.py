"""The Megatron configuration of a run: arguments of megatron-core's classes, in groups,
by megatron-core's own names.

`benchrun.frameworks.megatron.config` decides which arguments a group has and their
values; spec.json holds them; the worker and four templates read them. Types and
functions are names of torch's (``bfloat16``, ``silu``).
"""

from typing import Any

from benchrun.model import Frozen

Values = dict[str, Any]
"""One group of arguments; one that megatron-core's default suits may be left out."""


TUPLE = "window_size"
"""The argument that must be a tuple, which JSON has not."""


def is_torch_type(name: str) -> bool:
    """Whether an argument's value is the name of a type of torch's; the router's has
    names of its own (``fp32``).
    """
    return name.endswith("_dtype") and name != "moe_router_dtype"


class Megatron(Frozen):
    """The whole configuration, group by group."""

    transformer: Values
    """TransformerConfig: dimensions and kinds of the layers."""
    gpt: Values
    """GPTModel: what surrounds the layers."""
    attention: Values | None = None
    """TransformerConfig or MLATransformerConfig: kinds of attention that only some
    models have, and multi-token prediction; null if a model has none.
    """
    mamba: Values | None = None
    """MambaModel and TransformerConfig: the layers of a hybrid model; null for a
    transformer.
    """
    experts: Values | None
    """TransformerConfig: the mixture of experts; null for dense models."""
    parallel: Values
    """ModelParallelConfig: how the model is spread over the ranks."""
    communication: Values
    """Communication that overlaps with computation; all of it for NeMo's and
    Megatron-Bridge's overlap settings.
    """
    precision: Values
    """Types of weights, and of what pipeline stages send to each other."""
    fp8: Values | None
    """TransformerConfig: FP8 by transformer-engine; null in other precisions."""
    fp4: Values | None = None
    """TransformerConfig: NVFP4 by transformer-engine; null in other precisions."""
    fusion: Values
    """TransformerConfig: several operations in one kernel."""
    recompute: Values
    """TransformerConfig: activations computed again in the backward pass."""
    optimizer: Values
    """OptimizerConfig."""
    schedule: Values
    """Learning rate and weight decay over the run, in iterations, as Megatron-LM's
    arguments name them.
    """
    ddp: Values
    """DistributedDataParallelConfig."""
    sharding: Values
    """DistributedDataParallelConfig: whether weights, gradients and states are cut over
    the ranks (FSDP).
    """
    worker: Values | None
    """TransformerConfig: what the worker of this repository adds; null for other
    frameworks.
    """
    bridge: Values | None = None
    """TransformerConfig: what is stated to Megatron-Bridge alone; null for other
    frameworks.
    """
