"""What NeMo 1, NeMo 2 and Megatron-Bridge share: NGC's NeMo containers and NVIDIA's own launch scripts.

Sources of the environment: dgxc-benchmarking v24.11.1 (NeMo 1), NeMo v2.4.0 and Megatron-Bridge v0.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.frameworks.base import Variable
from benchrun.frameworks.megatron import Megatron, optimizer_refusals
from benchrun.frameworks.variables import FORKED, FUSED_ATTENTION
from benchrun.spec.runspec import RunSpec


class NeMo(Megatron):
    """A framework of NeMo's containers."""

    positions_per_sequence = True
    margin = "16"
    """Processors of a GPU that transformer-engine's norms leave to communication."""

    def environment(self, spec: RunSpec) -> dict[str, Variable]:
        """As NVIDIA's scripts set it."""
        margin = Variable(self.margin, "leaves processors of the GPU free for communication")
        variables = super().environment(spec) | FUSED_ATTENTION
        variables |= {
            "TOKENIZERS_PARALLELISM": Variable("False", FORKED),
            "NVTE_FWD_LAYERNORM_SM_MARGIN": margin,
            "NVTE_BWD_LAYERNORM_SM_MARGIN": margin,
        }
        if spec.layout.pp > 1:
            why = "larger pieces between pipeline stages: less time in their kernels"
            variables["NCCL_P2P_NET_CHUNKSIZE"] = Variable("2097152", why)
        return variables


class NeMoOfCore(NeMo):
    """NeMo 2 and Megatron-Bridge, which hand megatron.core's own configuration on."""

    conversations = "packed"
    options = ("optimizer",)

    def refusals(self, spec: RunSpec) -> Iterator[str]:
        """Limits of their optimizer and of their FSDP."""
        yield from super().refusals(spec)
        yield from optimizer_refusals(spec)
        layout = spec.layout
        ranks = spec.num_gpus // (layout.tp * layout.pp)
        if layout.fsdp > 1 and layout.fsdp != ranks:
            what = f"fsdp ({layout.fsdp}) must be 1 or dp * cp ({ranks})"
            yield f"{self.name} shards over all data-parallel ranks: {what}"
        if layout.fsdp > 1 and spec.task == "lora":
            yield f"{self.name} is not launched with adapters under FSDP: fsdp ({layout.fsdp}) must be 1"

    def environment(self, spec: RunSpec) -> dict[str, Variable]:
        """With attention and the priority of communication as in these releases."""
        return super().environment(spec) | {
            "NVTE_FLASH_ATTN": Variable("1", "attention may be flash or cuDNN's: transformer-engine takes the faster"),
            "TORCH_NCCL_HIGH_PRIORITY": Variable("1", "communication kernels go first"),
        }
