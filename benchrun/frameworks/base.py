"""The base class of a framework: what it can run, its environment, and what a job needs
to launch it.

A property of every framework is an attribute here, with the usual value;
recipes/capability.py turns those that limit a run into refusals. ``refusals`` adds the
limits of one framework.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from benchrun import paths
from benchrun.runspec.cluster import Cluster, Installation
from benchrun.runspec.launched import Launched
from benchrun.runspec.profile import Profile
from benchrun.runspec.spec import DataFormat, TrainingSpec
from benchrun.vocabulary import DEGREES, Precision, Task

from .environment import Variable, variables

PARALLELISM = (*DEGREES, "etp")
"""Every kind of parallelism besides data parallelism and FSDP."""
WORKER_OPTIONS = (
    "graph_scopes",
    "moe_dispatcher",
    "moe_overlap",
    "offload_modules",
    "switches",
    "optimizer",
    "cuda_graphs",
    "transformer_impl",
    "fused_kernels",
    "moe_grouped_gemm",
    "moe_permute_fusion",
    "cp_comm",
    "recompute.modules",
    "fp8.dot_product_attention",
    "fp8.store_activation_input",
    "fp8.tp_only_amax_reduction",
    "fp8.fast_gradients",
    "offload_activations",
    "swiglu",
    "late_loss_scale",
)
"""Fields of ``training`` that only some frameworks apply."""
SLURM_VARIABLES = (
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
)
"""Variables from which Lightning (NeMo) and jax.distributed learn the rank."""


class ImageFamily(NamedTuple):
    """Container images that carry the same frameworks."""

    name: str
    pattern: str
    """A regular expression that the lower-case name of such an image matches."""


SHARDING = (
    "training.distributed_optimizer",
    "training.overlap_grad_reduce",
    "training.overlap_param_gather",
)
"""Fields about the optimizer's shards and their communication."""
LLAMA = {
    "activation": "swiglu",
    "normalization": "RMSNorm",
    "position_embedding": "rope",
    "rotary_percent": 1.0,
}
"""Dimensions that every Llama shares."""
NEMO_IMAGES = ImageFamily("NeMo", "nemo")


class Unmeasured(NamedTuple):
    """Steps that a profiler needs beside the profiled ones; none of them is measured."""

    before: int = 0
    """Steps between the measured and the profiled ones, to warm it up."""
    after: int = 0
    """Steps after the profiled ones, until it has closed its trace."""


PROFILERS = {"kineto": Unmeasured(before=1), "nsys": Unmeasured()}
"""Profilers of frameworks that stop torch's profiler after the last profiled step."""


@dataclass(frozen=True)
class MemoryFacts:
    """Differences of a framework's memory use. The defaults are Megatron-LM's."""

    fully_sharded: bool = False
    """transformers with FSDP over all ranks: trained weights in FP32, no fused kernels.
    """
    planned_by_xla: bool = False
    """XLA plans the memory of a step: no placeholders of gradients, no temporary copies
    in Adam.
    """
    micro_batches: bool = True
    """Whether a rank splits its part of the global batch."""
    moments_at_a_time: int = 0
    """Parameters of a group whose lower-precision moments Adam converts to FP32; 0: not
    measured, so not counted.
    """
    unfused_gates: bool = False
    """Whether the MLP, without a fused kernel, gates by plain operations whose results
    are stored.
    """
    policies: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Legal ``recompute.policy`` -> products whose outputs a layer stores beside its
    input; None: assumed to be all.
    """


class Framework:
    """One framework. A subclass overrides the values that differ; its object has no
    state.
    """

    name: ClassVar[str]
    package: ClassVar[str | None] = None
    """The package whose version it has, if that is not called like the framework."""
    workload: ClassVar[str] = "training"
    """The kind of work that it does; each ``spec`` below is of its class (group
    workloads of `benchrun.extensions`).
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"pretrain", "sft", "lora"})
    precisions: ClassVar[frozenset[Precision]] = frozenset({"bf16", "fp8"})
    fp8_recipes: ClassVar[frozenset[str]] = frozenset(
        {"delayed", "tensorwise", "blockwise", "mxfp8"}
    )
    needs_gpu: ClassVar[bool] = True
    needs_slurm: ClassVar[bool] = False
    """Its ranks read their number from Slurm's variables only."""
    degrees: ClassVar[tuple[str, ...]] = PARALLELISM
    """Kinds of parallelism that benchrun can launch it with."""
    fsdp: ClassVar[bool] = True
    userbuffers: ClassVar[bool] = False
    """Whether tensor-parallel communication can overlap with matrix products."""
    experts: ClassVar[bool] = True
    features: ClassVar[frozenset[str]] = frozenset()
    """Parts of models that it can train besides plain Llamas and Mixtrals
    (`benchrun.model.features`).
    """
    stages: ClassVar[bool] = False
    """Whether it takes layers spread unevenly over pipeline stages (``layout.stages``).
    """
    model_values: ClassVar[Mapping[str, object]] = {}
    """Dimensions of a model that must have these values."""
    positions_per_sequence: ClassVar[bool] = False
    """Its table of learned positions is always as long as a sequence."""
    conversations: ClassVar[Literal["chat", "packed"] | None] = None
    """How it reads the synthetic conversations of a fine-tune; None if it cannot."""
    synthetic_data: ClassVar[bool] = True
    """Whether it reads the files of datagen."""
    options: ClassVar[tuple[str, ...]] = ()
    """The ``WORKER_OPTIONS`` that it applies."""
    fixed: ClassVar[Mapping[str, str]] = {}
    """Other fields that it ignores, with the reason; they must have their default."""
    own_worker: ClassVar[bool] = False
    """Whether this package trains: a run has a copy of it, and can measure ceilings and
    a breakdown.
    """
    serves: ClassVar[bool] = False
    """Whether a job starts it as a server (macro ``server``), and its client
    (``command``) when it is ready.
    """
    prepares: ClassVar[bool] = False
    """Whether the macro ``prepare`` has a command that runs once before."""
    profilers: ClassVar[Mapping[str, Unmeasured]] = {}
    """The tools that can profile its steps."""

    memory: ClassVar[MemoryFacts] = MemoryFacts()

    step_lines: ClassVar[tuple[str, ...]]
    """Text that only its step lines contain, by which the watchdog of a job counts
    them.
    """
    stderr_steps: ClassVar[bool] = False
    """Whether it prints its steps on stderr."""
    rank_variables: ClassVar[tuple[str, ...]] = ()
    """Slurm's variables that its ranks need inside a container."""
    numactl: ClassVar[bool] = True
    """Whether its image has numactl."""
    own_steps: ClassVar[Literal["ranks", "nodes"] | None] = None
    """Whether the macro ``steps`` of its template starts Slurm's steps, of ranks or of
    one task a node; None: one step of all ranks.
    """
    program: ClassVar[str | None] = None
    """Arguments with which Python starts it, if this needs no template of its own."""
    scripts: ClassVar[str | None] = None
    """Folder of its scripts in its image; None if it starts as a module."""
    images: ClassVar[ImageFamily] = NEMO_IMAGES
    releases: ClassVar[tuple[str, str | None]] = ("", None)
    """First and last release of NeMo's images that its template can launch."""
    newest: ClassVar[str | None] = None
    """Image of a newer release than the recipes name, which runs where a user names the
    framework and the recipe fits.
    """
    release_matters: ClassVar[bool] = False
    """Whether its configuration depends on the release in the name of the image."""
    folder: ClassVar[Path] = paths.TEMPLATES
    """Folder of its templates, which can import the shared ones."""
    files: ClassVar[tuple[str, ...]] = ()
    """Files beside the job script that it reads; each is rendered from
    frameworks/NAME.j2.
    """

    def writes_weights(self, spec: Any) -> bool:
        """Whether the job writes a checkpoint with random weights, and removes it at
        its end.
        """
        return False

    def ships(self, spec: Any) -> bool:
        """Whether a run has a copy of this package, which its job imports."""
        return self.own_worker or self.writes_weights(spec)

    @property
    def template(self) -> str:
        """The template with the macro ``command``."""
        return f"frameworks/{'program' if self.program else self.name}.sh.j2"

    def refusals(self, spec: Any) -> Iterator[str]:
        """Reasons why it cannot run ``spec`` that do not follow from the attributes."""
        yield from ()

    def step_words(self, spec: Any) -> tuple[str, ...]:
        """Text that only step lines of ``spec`` contain."""
        return self.step_lines

    def statement(self, spec: Any) -> str | None:
        """The line in which the job states itself; None if the log has all of it."""
        if self.own_worker or not isinstance(spec, TrainingSpec):
            return None
        return Launched.line(spec)

    def environment(self, spec: Any) -> dict[str, Variable]:
        """Variables of its ranks by name; the recipe's and the cluster's replace them."""
        return variables(self.name, spec)

    def configured(self, spec: Any) -> Any:
        """``spec`` with what spec.json stores besides the inputs."""
        return spec

    def configuration(self, spec: Any) -> dict[str, Any]:
        """Values for its templates, by name, besides the TrainingSpec."""
        return {}

    def profiled_steps(self, measured: int, profile: Profile) -> tuple[int, int] | None:
        """The first and the last step of ``profile``, which follow the ``measured``
        ones; None if it has none.
        """
        beside = self.profilers.get(profile.tool)
        if beside is None:
            return None
        return (measured + beside.before + 1, measured + beside.before + profile.steps)

    def all_steps(self, spec: Any) -> int | None:
        """Steps that a job of ``spec`` makes: those that are measured, and those of the
        profiler.
        """
        if spec.profiler == "none":
            return spec.planned_steps  # type: ignore[no-any-return]
        return int(spec.profiled_steps[1] + self.profilers[spec.profiler].after)

    def data_format(self, task: Task) -> DataFormat:
        """The form of its synthetic data."""
        if task == "pretrain":
            return "tokens"
        return self.conversations or "tokens"

    def release(self, versions: Mapping[str, str]) -> str | None:
        """Its version among those of packages; None if it is not one of them."""
        return versions.get(self.package or self.name)

    def installed(self, cluster: Cluster) -> Installation:
        """Installation of the framework that the site states."""
        return cluster.frameworks.get(self.name, Installation())

    def source(self, cluster: Cluster) -> str | None:
        """Folder of its scripts, as the ranks see it; None if it starts as a module."""
        path = self.installed(cluster).path
        if self.scripts and path:
            return path.split(":")[0]
        return self.scripts

    def python_path(self, cluster: Cluster) -> str | None:
        """PYTHONPATH of its ranks as the site states it; None: unchanged. An image has
        its own.
        """
        path = self.installed(cluster).path if cluster.container.runtime == "none" else None
        return ":".join(filter(None, (path, cluster.env.get("PYTHONPATH")))) or None

    def site_image(self, cluster: Cluster, published: str | None) -> str | None:
        """The site's image for it, or in place of the ``published`` one; None if the
        recipe's applies.
        """
        images = cluster.container.images
        return images.get(self.name) or images.get(published or "") or cluster.container.image

    def wrong_release(self, image: str | None, release: str | None) -> str | None:
        """The error of an image of NeMo's ``release`` (None: none in its name); None if
        it may be right.
        """
        first, last = self.releases
        if release is None or first <= release <= (last or release):
            return None
        carried = f"{first} to {last}" if last else f"{first} and later"
        return f"image {image} is NeMo {release}, and {self.name} needs NeMo {carried}"
