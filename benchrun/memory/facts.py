"""What a framework's implementation changes in the memory of a GPU: one row a framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchrun.spec.training import FP32_AT_A_TIME


@dataclass(frozen=True)
class MemoryFacts:
    """The defaults are those of Megatron-LM and the frameworks built on it."""

    fully_sharded: bool = False
    """transformers with FSDP over all ranks: trained weights in FP32, no fused kernels (`memory.fully_sharded`)."""
    planned_by_xla: bool = False
    """XLA plans the memory of a step: no placeholders of gradients, no temporary copies in Adam."""
    micro_batches: bool = True
    """False: a rank computes its part of the global batch at once."""
    moments_at_a_time: int = 0
    """Parameters whose lower-precision moments Adam makes FP32 at once in its step. 0: not measured, not counted."""
    unfused_gates: bool = False
    """An MLP without a fused kernel for its activation gates by plain operations, which keep their results."""
    policies: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Recompute policy -> the products whose outputs a layer keeps beside its input; None: taken to be all."""


MEMORY_FACTS: Mapping[str, MemoryFacts] = {
    "megatron-core": MemoryFacts(moments_at_a_time=FP32_AT_A_TIME, unfused_gates=True),
    "hf": MemoryFacts(fully_sharded=True),
    "maxtext": MemoryFacts(
        planned_by_xla=True,
        policies={
            "full": (),
            "save_qkv_proj": ("qkv",),
            "save_dot_except_mlp": ("qkv", "proj"),
            "save_dot_except_mlpwi": ("qkv", "proj", "fc2"),
        },
    ),
    "paxml": MemoryFacts(
        planned_by_xla=True,
        micro_batches=False,
        policies={
            "SAVE_NOTHING": (),
            "SAVE_QKV_OUT_PROJ": ("qkv", "proj"),
            "SAVE_DOT_ONLY": ("qkv", "proj", "fc1", "fc2"),
            "SAVE_DOT_WITH_NO_BATCH_DIM": ("qkv", "proj", "fc1", "fc2"),
        },
    ),
}
"""A framework that is not listed has the defaults."""


def facts_of(framework: str) -> MemoryFacts:
    """The row of ``framework``."""
    return MEMORY_FACTS.get(framework, MemoryFacts())
