"""The base class of a framework: what it can run, its environment, and what a job needs to launch it.

A fact that every framework has is an attribute here, with the usual value; recipe/capability.py turns those that limit
a run into refusals. What only one framework refuses is its own ``refusals``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from benchrun import paths
from benchrun.spec.cluster import Cluster
from benchrun.spec.runspec import DataFormat, RunSpec
from benchrun.vocabulary import Precision, Task

DEGREES = ("tp", "pp", "cp", "vp", "ep", "etp")
"""Every kind of parallelism besides data parallelism and FSDP."""
WORKER_OPTIONS = (
    *("optimizer", "cuda_graphs", "transformer_impl", "fused_kernels", "moe_grouped_gemm", "moe_permute_fusion"),
    *("cp_comm", "recompute.modules", "fp8.dot_product_attention", "fp8.store_activation_input"),
    "fp8.tp_only_amax_reduction",
)
"""Fields of ``training`` that few frameworks take from the RunSpec; the others would ignore them."""
SLURM_VARIABLES = (
    *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_LOCALID", "SLURM_NNODES", "SLURM_NODEID"),
    *("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES"),
)
"""Where Lightning (NeMo) and jax.distributed look for a rank's number."""


class Variable(NamedTuple):
    """An environment variable of the ranks."""

    value: str
    why: str
    """The comment beside it in the job script."""


class ImageFamily(NamedTuple):
    """Container images that carry the same frameworks."""

    name: str
    pattern: str
    """A regular expression that the lower-case name of such an image matches."""


SHARDING = ("training.distributed_optimizer", "training.overlap_grad_reduce", "training.overlap_param_gather")
"""Fields about the optimizer's shards and their communication."""
LLAMA = {"activation": "swiglu", "normalization": "RMSNorm", "position_embedding": "rope", "rotary_percent": 1.0}
"""Dimensions that every Llama shares."""
NEMO_IMAGES = ImageFamily("NeMo", "nemo")


@dataclass(frozen=True)
class MemoryFacts:
    """What an implementation changes in the memory of a GPU. The defaults are Megatron-LM's."""

    fully_sharded: bool = False
    """transformers with FSDP over all ranks: trained weights in FP32, no fused kernels."""
    planned_by_xla: bool = False
    """XLA plans the memory of a step: no placeholders of gradients, no temporary copies in Adam."""
    micro_batches: bool = True
    """False: a rank computes its part of the global batch at once."""
    moments_at_a_time: int = 0
    """Parameters whose lower-precision moments Adam makes FP32 at once in its step; 0: not measured, so not counted."""
    unfused_gates: bool = False
    """An MLP without a fused kernel for its activation gates by plain operations, which keep their results."""
    policies: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Legal ``recompute.policy`` -> products whose outputs a layer keeps beside its input; None: taken to be all."""


class Framework:
    """One framework. A subclass states where it differs from the values here; its object has no state."""

    name: ClassVar[str]

    tasks: ClassVar[frozenset[Task]] = frozenset({"pretrain", "sft", "lora"})
    precisions: ClassVar[frozenset[Precision]] = frozenset({"bf16", "fp8"})
    fp8_recipes: ClassVar[frozenset[str]] = frozenset({"delayed", "tensorwise", "blockwise", "mxfp8"})
    needs_gpu: ClassVar[bool] = True
    needs_slurm: ClassVar[bool] = False
    """It learns its ranks from Slurm's variables alone."""
    degrees: ClassVar[tuple[str, ...]] = DEGREES
    """The kinds of parallelism it is launched with."""
    fsdp: ClassVar[bool] = True
    userbuffers: ClassVar[bool] = False
    """Tensor-parallel communication can overlap with its matrix products."""
    experts: ClassVar[bool] = True
    model_values: ClassVar[Mapping[str, object]] = {}
    """Dimensions of a model that must have these values."""
    positions_per_sequence: ClassVar[bool] = False
    """Its table of learned positions is as long as a sequence, whatever max_position_embeddings is."""
    conversations: ClassVar[Literal["chat", "packed"] | None] = None
    """How it reads the synthetic conversations of a fine-tune; None where it reads none."""
    synthetic_data: ClassVar[bool] = True
    """It reads files that datagen made."""
    options: ClassVar[tuple[str, ...]] = ()
    """Those of ``WORKER_OPTIONS`` that it takes from the RunSpec."""
    fixed: ClassVar[Mapping[str, str]] = {}
    """Other fields that it would ignore -> why. They must have their default."""
    own_worker: ClassVar[bool] = False
    """This package trains itself: a run carries a copy of it, and can measure ceilings and a breakdown."""

    memory: ClassVar[MemoryFacts] = MemoryFacts()

    step_lines: ClassVar[tuple[str, ...]]
    """Text that its step lines hold, and no other line: the watchdog of a job counts them."""
    stderr_steps: ClassVar[bool] = False
    """It prints its steps on stderr."""
    rank_variables: ClassVar[tuple[str, ...]] = ()
    """Variables of Slurm that its ranks need inside a container."""
    numactl: ClassVar[bool] = True
    """Its image has numactl."""
    scripts: ClassVar[str | None] = None
    """The folder of its scripts in its image; None where it is started as a module."""
    images: ClassVar[ImageFamily] = NEMO_IMAGES
    releases: ClassVar[tuple[str, str | None]] = ("", None)
    """The first and the last release of NeMo's images that carry it as its template launches it."""
    release_matters: ClassVar[bool] = False
    """Its configuration depends on the release that the name of the image states."""
    folder: ClassVar[Path] = paths.TEMPLATES
    """The folder of its templates; they can import the shared ones."""
    files: ClassVar[tuple[str, ...]] = ()
    """Files beside the job script that it reads; each is rendered from frameworks/NAME.j2."""

    @property
    def template(self) -> str:
        """The template with the macro ``command``."""
        return f"frameworks/{self.name}.sh.j2"

    def refusals(self, spec: RunSpec) -> Iterator[str]:
        """Every reason why it cannot run ``spec`` that does not follow from the attributes."""
        yield from ()

    def environment(self, spec: RunSpec) -> dict[str, Variable]:
        """Variables of its ranks by name; the recipe's and the cluster's replace them."""
        return {}

    def configured(self, spec: RunSpec) -> RunSpec:
        """``spec``, which it can run, with what is computed from it once and stored in spec.json."""
        return spec

    def configuration(self, spec: RunSpec) -> dict[str, Any]:
        """Values for its templates, by name, besides the RunSpec."""
        return {}

    def data_format(self, task: Task) -> DataFormat:
        """The form of its synthetic data."""
        return "tokens" if task == "pretrain" else self.conversations or "tokens"

    def source(self, cluster: Cluster) -> str | None:
        """The folder of its scripts, as the ranks see it; None where it is started as a module."""
        return cluster.sources.get(self.name, self.scripts)

    def site_image(self, cluster: Cluster) -> str | None:
        """The image that the site names for it; None where the recipe's is used."""
        return cluster.container.images.get(self.name, cluster.container.image)

    def wrong_release(self, image: str | None, release: str | None) -> str | None:
        """What is wrong with an image of NeMo's ``release`` (None: none in its name); None where it may be right."""
        first, last = self.releases
        if release is None or first <= release <= (last or release):
            return None
        carried = f"{first} to {last}" if last else f"{first} and later"
        return f"image {image} is NeMo {release}, and {self.name} needs NeMo {carried}"
