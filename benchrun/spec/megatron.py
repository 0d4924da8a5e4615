"""The Megatron configuration of a run: arguments of megatron-core's classes, in groups, by megatron-core's own names.

`benchrun.frameworks.megatron_config` decides which arguments a group has and their values; spec.json holds them; the
worker and four templates read them. Types and functions are names of torch's (``bfloat16``, ``silu``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchrun.model import Frozen


class Values(Frozen, extra="allow"):
    """One group of arguments; each is an attribute too."""

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    @property
    def values(self) -> dict[str, Any]:
        """Value of each argument by name."""
        return dict(self.model_extra or {})


class Sparse(Values):
    """A group in which None leaves an argument to megatron-core's default."""

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

    @property
    def values(self) -> dict[str, Any]:
        """Value by name, without the arguments that keep megatron-core's default."""
        return {name: value for name, value in super().values.items() if value is not None}


class Megatron(Frozen):
    """The whole configuration, group by group."""

    transformer: Values
    """TransformerConfig: dimensions and kinds of the layers."""
    gpt: Values
    """GPTModel: what surrounds the layers."""
    experts: Values | None
    """TransformerConfig: the mixture of experts; null for dense models."""
    parallel: Values
    """ModelParallelConfig: how the model is spread over the ranks."""
    communication: Values
    """Which communication overlaps with computation; all of it for NeMo's and Megatron-Bridge's overlap settings."""
    precision: Values
    """Types of weights, and of what pipeline stages send to each other."""
    fp8: Values | None
    """TransformerConfig: FP8 by transformer-engine; null in other precisions."""
    fusion: Values
    """TransformerConfig: several operations in one kernel."""
    recompute: Values
    """TransformerConfig: activations computed again in the backward pass."""
    optimizer: Sparse
    """OptimizerConfig; null leaves an argument to megatron-core's default."""
    schedule: Values
    """Learning rate and weight decay over the run, in iterations, as Megatron-LM's arguments name them."""
    ddp: Values
    """DistributedDataParallelConfig."""
    sharding: Values
    """DistributedDataParallelConfig: whether weights, gradients and states are cut over the ranks (FSDP)."""
    worker: Sparse | None
    """TransformerConfig: what the worker of this repository adds; null for other frameworks."""
