"""nemo2 (nemo.collections.llm) and megatron-bridge. Sources of the environment: NeMo v2.4.0, Megatron-Bridge v0.2.2."""

from collections.abc import Iterator

from benchrun.frameworks.base import PROFILERS, SLURM_VARIABLES
from benchrun.frameworks.megatron import Megatron
from benchrun.spec.runspec import TrainingSpec
from benchrun.spec.training import Training


class NeMoOfCore(Megatron):
    """NeMo 2 and Megatron-Bridge, which hand megatron.core's own configuration on."""

    positions_per_sequence = True
    conversations = "packed"
    options = ("optimizer",)

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of their optimizer and of their FSDP."""
        yield from super().refusals(spec)
        layout = spec.layout
        ranks = spec.num_gpus // (layout.tp * layout.pp)
        if layout.fsdp > 1 and layout.fsdp != ranks:
            what = f"fsdp ({layout.fsdp}) must be 1 or dp * cp ({ranks})"
            yield f"{self.name} shards over all data-parallel ranks: {what}"
        if layout.fsdp > 1 and spec.task == "lora":
            yield f"benchrun does not support {self.name} with adapters under FSDP: fsdp ({layout.fsdp}) must be 1"


class NeMo2(NeMoOfCore):
    """NeMo 2, in NeMo's containers 25.02 to 25.09. Its values are in a driver beside the job script."""

    name = "nemo2"
    program = "train_nemo2.py"
    step_lines = ("train_step_timing in s: ",)
    rank_variables = SLURM_VARIABLES
    releases = ("25.02", "25.09")
    files = ("train_nemo2.py",)
    profilers = PROFILERS

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """A seed that its mock data would ignore."""
        yield from super().refusals(spec)
        if spec.data.kind == "mock" and spec.training.seed != (seed := Training().seed):
            yield f"nemo2's mock data and weights have a seed of their own: training.seed must be {seed}"


class MegatronBridge(NeMoOfCore):
    """Megatron-Bridge, in NeMo's containers from 25.09 on. Its values are in a driver beside the job script."""

    name = "megatron-bridge"
    program = "train_megatron_bridge.py"
    step_lines = ("elapsed time per iteration (", "Step Time : ")
    releases = ("25.09", None)
    files = ("train_megatron_bridge.py",)
