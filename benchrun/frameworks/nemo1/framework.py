"""nemo1: megatron_gpt_pretraining.py of NeMo 1, in NeMo's containers 24.05, 24.09 and
24.12.

Source of the environment: dgxc-benchmarking v24.11.1.
"""

from collections.abc import Iterator
from typing import Any

from benchrun.frameworks.base import SLURM_VARIABLES, Unmeasured
from benchrun.frameworks.megatron.nemo import NeMoOfCore
from benchrun.model import Moe
from benchrun.runspec.image_names import nemo_release
from benchrun.runspec.spec import TrainingSpec

RELEASES = ("24.05", "24.09", "24.12")


class NeMo1(NeMoOfCore):
    """Pretraining only: its fine-tunes need a .nemo checkpoint, and benchrun starts
    from random weights.
    """

    name = "nemo1"
    package = "nemo-toolkit"
    options = ("switches",)
    parts = ("model", "trainer", "env")
    tasks = frozenset({"pretrain"})
    fp8_recipes = frozenset({"delayed"})
    fsdp = False
    step_lines = ("train_step_timing in s=", '"train_step_tim')
    rank_variables = SLURM_VARIABLES
    scripts = "/opt/NeMo"
    release_matters = True
    files = ("nemo1.yaml",)
    # It counts the micro-batches that it has read, so that a profile may begin one step
    # before or with the first.
    profilers = dict.fromkeys(("nsys",), Unmeasured(before=1))

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Limits of its releases."""
        yield from super().refusals(spec)
        training, release = spec.training, nemo_release(spec.image)
        if spec.layout.account_for_embedding_and_loss:
            yield "nemo1 spreads layers evenly: account_for_embedding_and_loss must be false"
        if not training.distributed_optimizer and (
            training.overlap_grad_reduce or not training.grad_reduce_in_fp32
        ):
            how = "grad_reduce_in_fp32 must be true, overlap_grad_reduce and overlap_param_gather false"
            yield f"without distributed_optimizer nemo1 reduces gradients in FP32, after the backward pass: {how}"
        if training.tp_comm_overlap and release in ("24.05", "24.09") and spec.cluster.mpi is None:
            how = "cluster.mpi must be set (pmix), or tp_comm_overlap be false"
            yield f"NeMo {release} starts userbuffers over MPI: {how}"
        if spec.model.moe is not None:
            yield from _experts(spec, spec.model.moe, release)

    def configuration(self, spec: TrainingSpec) -> dict[str, Any]:
        """The release, on which the keys of its YAML depend."""
        return super().configuration(spec) | {"nemo_release": nemo_release(spec.image)}

    def wrong_release(self, image: str | None, release: str | None) -> str | None:
        """Refuse releases whose keys are not known."""
        if release in RELEASES:
            return None
        return f"the name of a nemo1 image must contain its release, one of {', '.join(RELEASES)}: {image}"


def _experts(spec: TrainingSpec, moe: Moe, release: str | None) -> Iterator[str]:
    layout, training = spec.layout, spec.training
    if moe.force_balance:
        yield "nemo1 cannot force equal load: moe.force_balance must be false; moe.capacity_factor 1 evens it out"
    if layout.etp != layout.tp:
        yield f"nemo1 splits experts like everything else: etp ({layout.etp}) must be tp ({layout.tp})"
    if not training.distributed_optimizer:
        yield "nemo1 trains experts with Megatron's distributed optimizer: distributed_optimizer must be true"
    if release == "24.05" and layout.ep > 1 and layout.cp > 1:
        yield f"NeMo 24.05 has no context parallelism with expert parallelism: cp ({layout.cp}), or ep, must be 1"
    if release == "24.05" and spec.precision == "fp8" and training.fp8.param_gather:
        yield "NeMo 24.05 keeps no experts in FP8: fp8.param_gather must be false"
