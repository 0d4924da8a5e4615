"""A site's profile: where jobs run, in which container runtime, with which environment
and binding.
"""

from functools import partial
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from benchrun.model import Frozen
from benchrun.vocabulary import MOST_GPUS, Runtime

from .site_rules import own_variable, setup_line, site_option

IN_WORDS: dict[str, str] = {}
"""Pattern -> what it expects, for errors."""


def _matching(pattern: str, expected: str) -> StringConstraints:
    IN_WORDS[pattern] = expected
    return StringConstraints(pattern=pattern)


_FOLDERS = r"^/[^\r\n\x00:]*(:/[^\r\n\x00:]*)*$"
_GRES = r"^([^\r\n\x00]*:)?[^\r\n\x00:]*[^\d\r\n\x00:][^\r\n\x00:]*$"
_MOUNT = r"^/[^\r\n\x00:,]*:/[^\r\n\x00:,]*(:r[ow])?$"
_DURATION = (
    "[days-]hours:minutes:seconds with at most two digits of hours, e.g. 00:30:00 or 4-04:00:00"
)


def _text(value: object) -> object:
    """A number or ``true`` as it is written: an account may be called 123, and
    NCCL_DEBUG_SUBSYS has no quotes.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (int, float)):
        return value
    return getattr(value, "text", str(value))


_AS_WRITTEN = BeforeValidator(_text)
_LISTED = BeforeValidator(lambda value: value if isinstance(value, (list, tuple)) else [value])
Value = TypeVar("Value")
Listed = Annotated[tuple[Value, ...], _LISTED]
"""A list, or one value alone."""
Text = Annotated[str, _AS_WRITTEN, _matching(r"^[^\x00]*$", "text without a NUL character")]
Line = Annotated[str, _AS_WRITTEN, _matching(r"^[^\r\n\x00]*$", "text of one line")]
"""Text without line breaks: it ends up in one line of a script."""
EnvName = Annotated[
    str,
    _matching(
        r"^[A-Za-z_][A-Za-z0-9_]*$", "a name of letters, digits and _ that begins with no digit"
    ),
]
OwnName = Annotated[EnvName, AfterValidator(own_variable)]
"""A name that the job script does not use itself."""
Gres = Annotated[
    str,
    _AS_WRITTEN,
    _matching(_GRES, "a resource without its count, which is gpus_per_node, e.g. gpu or gpu:h200"),
]
Option = Annotated[
    str, _matching(r"^-[^\r\n\x00]*$", "an option that begins with -, e.g. --segment=8")
]
Folders = Annotated[
    str,
    _matching(_FOLDERS, "absolute paths with ':' between them, e.g. /opt/NeMo:/opt/Megatron-LM"),
]
Mount = Annotated[
    str,
    _matching(
        _MOUNT,
        "source:target or source:target:ro, both absolute, without ',' or another ':' in them",
    ),
]
Duration = Annotated[str, _AS_WRITTEN, _matching(r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$", _DURATION)]


class Container(Frozen):
    """How the job's command gets into its image."""

    runtime: Runtime = "none"
    """Container runtime; none if the worker runs on the host."""
    image: Line | None = None
    """Used instead of the recipe's image: a local .sqsh or .sif, an unpacked directory,
    another registry.
    """
    images: dict[Line, Line] = Field(default_factory=dict)
    """Image by framework, or by the recipe's image (``nvcr.io/nvidia/nemo:25.07.01:
    /images/nemo.sqsh``); overrides ``image``, the framework's name first.
    """
    mounts: Listed[Mount] = ()
    """``source:target`` or ``source:target:ro``; the run directory is always mounted,
    and is the working directory.
    """
    options: Listed[Line] = ()
    """More options of the runtime's command (with pyxis: of srun), one word each."""

    @model_validator(mode="after")
    def _expressible(self, info: ValidationInfo) -> "Container":
        if self.runtime == "pyxis":
            for option in self.options:
                site_option("srun", option, info)
        writable = next((mount for mount in self.mounts if mount.endswith(":ro")), None)
        if self.runtime == "charliecloud" and writable:
            raise ValueError(
                f"charliecloud has no read-only mounts: {writable} must be {writable.removesuffix(':ro')}"
            )
        return self


class OwnGpu(Frozen):
    """A GPU that the hardware table does not list. Without it such a GPU has no MFU and
    no check of its memory.
    """

    memory_gib: PositiveFloat
    """Memory of one GPU in GiB."""
    peak_bf16_tflops: PositiveFloat
    """Dense peak in BF16, without structured sparsity."""
    peak_fp8_tflops: PositiveFloat | None = None
    """Dense peak in FP8; null for a GPU without FP8 units."""
    peak_fp4_tflops: PositiveFloat | None = None
    """Dense peak in NVFP4; null for a GPU without FP4 units."""
    arch: Line = ""
    """Architecture, e.g. ``Hopper``."""
    source: Line = "the site file"
    """Source of the numbers."""


class Binding(Frozen):
    """CPUs and memory that a rank may use."""

    cpu_bind: Line | None = None
    """srun's --cpu-bind, e.g. ``cores`` or ``none``."""
    gpus_per_numa_node: PositiveInt | None = None
    """Binds ranks to NUMA node ``local rank // gpus_per_numa_node`` with numactl
    (taskset in JAX images with pyxis).
    """


class Installation(Frozen):
    """A framework that the site has outside an image."""

    path: Folders | None = None
    """Folders as the ranks see them, with ``:`` between them. The framework's scripts
    are in the first. Without a container they also come first in PYTHONPATH.
    """
    python: Line | None = None
    """Interpreter of its ranks, e.g. that of a virtual environment; null: the site's
    ``python``.
    """


UNNAMED = "site"
"""Name of the site of kept runs, whose own is taken out."""


class Cluster(Frozen):
    """A site's profile: everything about the machine, nothing about the workload."""

    name: Line
    """Name of the site; by default that of the file."""
    description: Line = ""
    """One line for `benchrun list`."""
    scheduler: Literal["slurm", "local"]
    """Slurm, or this machine itself."""
    gpu: Line
    """Name in the hardware table; ``CPU`` if training runs without a GPU."""
    gpus_per_node: Annotated[PositiveInt, Field(le=MOST_GPUS)]
    """Ranks per node: one per GPU (8 on HGX H100/H200, 1 or 4 on GH200), or CPU
    processes.
    """
    fabric: Literal["infiniband", "roce", "efa", "ethernet"] | None = None
    """Network between the nodes: a job that sends over TCP although there is a faster one
    is named in `benchrun status` and in its verdict.
    """
    hardware: OwnGpu | None = None
    """Memory and peaks of a ``gpu`` that the hardware table does not list."""
    partition: Line | None = None
    """sbatch --partition."""
    account: Line | None = None
    """sbatch --account."""
    qos: Line | None = None
    """sbatch --qos."""
    reservation: Line | None = None
    """sbatch --reservation."""
    constraint: Line | None = None
    """sbatch --constraint."""
    nodelist: Line | None = None
    """sbatch --nodelist."""
    exclude: Line | None = None
    """sbatch --exclude."""
    gres: Gres | None = None
    """Generic resource per node without its count, e.g. ``gpu`` or ``gpu:h200``;
    gpus_per_node is appended.
    """
    exclusive: bool | Literal["user", "mcs", "topo"] = True
    """Ask for whole nodes: a shared node gives no benchmark. ``user``: other jobs of
    the same user may share them, as sbatch --exclusive=user says.
    """
    mem: Line | None = None
    """sbatch --mem, e.g. ``0`` for all of the node's memory."""
    cpus_per_task: PositiveInt | None = None
    """sbatch and srun --cpus-per-task: since Slurm 22.05 srun does not inherit it, and
    would bind a rank to one CPU.
    """
    time_limit: Duration = "00:30:00"
    """[days-]hours:minutes:seconds."""
    step_deadline_s: PositiveInt | None = None
    """Seconds without a step, also before the first, after which the job ends as hung;
    null: only the time limit.
    """
    mpi: Line | None = None
    """srun --mpi, e.g. ``pmix``."""
    sbatch_options: Listed[Annotated[Option, AfterValidator(partial(site_option, "sbatch"))]] = ()
    """More header lines, one option each, e.g. ``--segment=8``."""
    srun_options: Listed[Annotated[Option, AfterValidator(partial(site_option, "srun"))]] = ()
    """More options for srun, one word each, e.g. ``--distribution=block``."""
    container: Container = Container()
    """How the ranks get into their image."""
    binding: Binding = Binding()
    """CPUs and memory that a rank may use."""
    setup: Listed[Annotated[Line, AfterValidator(setup_line)]] = ()
    """Shell lines that the job runs once before srun (``module load ...``), unquoted.
    """
    env: dict[OwnName, Text] = Field(default_factory=dict)
    """Environment of the ranks, e.g. the network interface NCCL must use."""
    secrets: Listed[OwnName] = ()
    """Names of variables that the job takes from the submitting shell; no file holds
    their values.
    """
    frameworks: dict[Line, Installation] = Field(default_factory=dict)
    """Installations of frameworks outside their images: source checkouts or virtual
    environments.
    """
    python: Line = "python3"
    """Interpreter of the ranks (inside the container, if there is one)."""

    @property
    def header_options(self) -> tuple[str, ...]:
        """Options of sbatch that are written as they stand: ``exclusive``, then the
        site's own.
        """
        mode = ""
        if not isinstance(self.exclusive, bool):
            mode = f"={self.exclusive}"
        return (*((f"--exclusive{mode}",) if self.exclusive else ()), *self.sbatch_options)

    @property
    def time_limit_s(self) -> int:
        """``time_limit`` in seconds."""
        days, _, clock = self.time_limit.rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

    @field_validator("container")
    @classmethod
    def _own_gpus(cls, container: Container, info: ValidationInfo) -> Container:
        shared = info.data.get("scheduler") == "slurm" and info.data.get("exclusive") is not True
        if container.runtime in ("podman", "docker") and shared and info.data.get("gpu") != "CPU":
            raise ValueError(
                f"{container.runtime} gives the job every GPU of the node: set exclusive: true"
            )
        return container
