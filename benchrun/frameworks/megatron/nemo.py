"""The base class of NeMo 2 and Megatron-Bridge."""

from collections.abc import Iterator
from typing import ClassVar

from benchrun.runspec.spec import TrainingSpec

from .framework import Megatron


class NeMoOfCore(Megatron):
    """NeMo 2 and Megatron-Bridge, which hand megatron.core's own configuration on."""

    positions_per_sequence = True
    conversations = "packed"
    options: ClassVar[tuple[str, ...]] = ("optimizer", "recompute.modules")

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of their optimizer and of their FSDP."""
        yield from super().refusals(spec)
        layout = spec.layout
        if layout.fsdp > 1 and spec.task == "lora":
            yield f"benchrun does not support {self.name} with adapters under FSDP: fsdp ({layout.fsdp}) must be 1"
