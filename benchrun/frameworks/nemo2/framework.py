"""nemo2 (nemo.collections.llm). Source of the environment: NeMo v2.4.0."""

from collections.abc import Iterator

from benchrun.frameworks.base import PROFILERS, SLURM_VARIABLES
from benchrun.frameworks.megatron.framework import partly_sharded
from benchrun.frameworks.megatron.nemo import NeMoOfCore
from benchrun.model.features import TRANSFORMER
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Training


class NeMo2(NeMoOfCore):
    """NeMo 2, in NeMo's containers 25.02 to 25.09. Its values are in a driver beside
    the job script.
    """

    name = "nemo2"
    package = "nemo-toolkit"
    # Lengthened rotary positions and Llama 4 have classes of their own there, Mamba-2
    # another model.
    features = TRANSFORMER - {
        "qk_l2_norm",
        "sinks",
        "window",
        "no_rope",
        "llama3_rope",
        "yarn",
        "clamped",
        "expert_biases",
    }
    program = "train_nemo2.py"
    step_lines = ("train_step_timing in s: ",)
    rank_variables = SLURM_VARIABLES
    releases = ("25.02", "25.09")
    files = ("train_nemo2.py",)
    options = (*NeMoOfCore.options, "cuda_graphs", "moe_grouped_gemm", "moe_permute_fusion")
    profilers = PROFILERS

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """A seed that its mock data would ignore."""
        yield from super().refusals(spec)
        yield from partly_sharded(spec, self.name)
        if spec.model.mtp_layers and spec.model.mla is None:
            yield "nemo2 predicts several tokens with latent attention alone: mtp_layers must be 0"
        graphs, recompute = spec.training.cuda_graphs, spec.training.recompute
        alone = spec.layout.fsdp == 1 and recompute.granularity == "none"
        if graphs == "full_iteration" or (graphs == "layers" and not alone):
            yield "nemo2 captures layers, without FSDP and recompute: cuda_graphs must be none here"
        if spec.data.kind == "mock" and spec.training.seed != (seed := Training().seed):
            yield f"nemo2's mock data and weights have a seed of their own: training.seed must be {seed}"
