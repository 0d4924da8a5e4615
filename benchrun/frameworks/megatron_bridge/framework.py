"""megatron-bridge. Source of the environment: Megatron-Bridge v0.2.2 to v0.6.0."""

from collections.abc import Iterator
from typing import Any, ClassVar

from benchrun import hardware
from benchrun.frameworks.environment import Variable
from benchrun.frameworks.megatron.framework import partly_sharded
from benchrun.frameworks.megatron.nemo import NeMoOfCore
from benchrun.model.features import FEATURES, features
from benchrun.runspec.image_names import nemo_release
from benchrun.runspec.spec import TrainingSpec

RELEASE_OF_TODAY = "26.04"
"""NeMo's containers from this one on have Megatron-Bridge 0.4, whose names the template
uses for newer models.
"""
GRAPHS_RENAMED = "26.06"
"""NeMo's containers from this one on have Megatron-Bridge 0.5, where graphs of whole
iterations are a kind of their own.
"""
RENAMED = "26.08"
"""NeMo's containers from this one on have Megatron-Bridge 0.6, which packs conversations
under other names, never makes an attention mask of mock tokens, and whose FSDP can
have replicas.
"""
OVERLAPS = (
    "overlap_grad_reduce",
    "overlap_param_gather",
    "align_param_gather",
    "overlap_param_gather_with_optimizer_step",
)
"""Arguments of gradients and weights that CommOverlapConfig writes over those of the
other parts.
"""
IN_BF16 = ("first_last_layers_bf16", "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")
"""Arguments of the model that MixedPrecisionConfig writes over."""


class MegatronBridge(NeMoOfCore):
    """Megatron-Bridge, in NeMo's containers from 25.09 on. Its values are in a driver
    beside the job script.
    """

    name = "megatron-bridge"
    optional = "comm_overlap"
    mxfp8_weights = True
    precisions = frozenset({"bf16", "fp8", "nvfp4"})
    features = frozenset(FEATURES)
    stages = True
    program = "train_megatron_bridge.py"
    step_lines = ("elapsed time per iteration (", "Step Time : ")
    releases = ("25.09", None)
    newest = f"nvcr.io/nvidia/nemo:{RENAMED}"
    files = ("train_megatron_bridge.py",)
    options: ClassVar[tuple[str, ...]] = (
        *NeMoOfCore.options,
        "cuda_graphs",
        "graph_scopes",
        "moe_dispatcher",
        "moe_overlap",
        "offload_modules",
    )
    parts = (*NeMoOfCore.parts, "dist")

    def refusals(self, spec: TrainingSpec) -> Iterator[str]:
        """Refuse what the first releases have no names for."""
        yield from super().refusals(spec)
        release = nemo_release(spec.image) or ""
        if release < RENAMED:
            yield from partly_sharded(spec, self.name)
        if "" < release < RELEASE_OF_TODAY and (features(spec.model) or spec.precision == "nvfp4"):
            what = "NVFP4" if spec.precision == "nvfp4" else FEATURES[features(spec.model)[0]]
            yield f"benchrun supports megatron-bridge with {what} from NeMo {RELEASE_OF_TODAY} on, not in {release}"
        if release >= RENAMED and spec.packed and spec.reads_files:
            yield f"benchrun supports megatron-bridge with packed conversations before NeMo {RENAMED}, not in {release}"

    def implied(self, spec: TrainingSpec) -> dict[str, Any]:
        """Replicas under FSDP, names of the release, and what another part writes over."""
        found: dict[str, Any] = {}
        if spec.layout.fsdp > 1 and (replicas := spec.dp * spec.layout.cp // spec.layout.fsdp) > 1:
            found["ddp.num_distributed_optimizer_instances"] = replicas
            found["ddp.outer_dp_sharding_strategy"] = "optim"
        release = nemo_release(spec.image) or ""
        if spec.training.cuda_graphs == "full_iteration" and release >= GRAPHS_RENAMED:
            found |= {"model.cuda_graph_impl": "full_iteration", "model.cuda_graph_scope": []}
        for name, value in spec.training.switches.items():
            argument = name.partition(".")[2]
            if argument in OVERLAPS:
                found[f"comm_overlap.{argument}"] = value
            if argument in IN_BF16:
                found[f"mixed_precision.{argument}"] = value
        return found

    def configuration(self, spec: TrainingSpec) -> dict[str, Any]:
        """With names of the release."""
        return super().configuration(spec) | {"release": nemo_release(spec.image) or ""}

    def environment(self, spec: TrainingSpec) -> dict[str, Variable]:
        """With HybridEP's view of the NVLink domain. A node of eight GPUs is a domain of
        its own; of GB200 and GB300 72 share one.
        """
        found = super().environment(spec)
        if spec.training.moe_dispatcher == "hybridep":
            card, why = hardware.gpu(spec.gpu), "HybridEP: ranks that reach each other over NVLink"
            domain = spec.cluster.gpus_per_node
            if card:
                domain = card.nvlink_domain
            ranks = str(min(domain, spec.layout.ep))
            found = {
                "NVLINK_DOMAIN_SIZE": Variable(str(domain), why),
                "USE_MNNVL": Variable(str(int(domain > spec.cluster.gpus_per_node)), why),
                "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": Variable(ranks, why),
                "NUM_OF_TOKENS_PER_CHUNK_COMBINE_API": Variable(
                    "128", "HybridEP: a faster combination of tokens"
                ),
                **found,
            }
        return found
