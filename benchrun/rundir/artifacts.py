"""Every file of a run directory: its name, who writes it, and the models of those that
the job and the host share.

The files below ``worker/`` are a copy of this package, those of `Framework.files` a
framework's own. The models of steps.jsonl, telemetry.json, metrics.json and
verdict.json stand where these are computed: only the host uses them. Imports nothing
but pydantic and the standard library: the worker reads this inside the training image.
"""

import contextlib
import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from benchrun.model import Frozen
from benchrun.model.operators import Pass
from benchrun.vocabulary import Precision

from .network import Network

FILES: dict[str, str] = {}
"""Name of each file -> what is in it."""


def _file(name: str, content: str) -> str:
    FILES[name] = content
    return name


# Written before the job starts.
SPEC = _file(
    "spec.json",
    "every value of the run: recipe, site file and options combined, defaults filled in",
)
JOB = _file("job.sh", "the job script: sbatch job.sh, or bash job.sh on this machine")
PROBE_SCRIPT = _file("probe.sh", "describes a node")
TELEMETRY_SCRIPT = _file("telemetry.sh", "samples the GPUs of a node")
CONTAINER_SCRIPT = _file("contained.sh", "runs a rank inside podman or docker")
HANG_SCRIPT = _file("hang.py", "asks the ranks of a node what they do, before a hung job is ended")
PROFILE_SCRIPT = _file("nsys.sh", "runs the profiled ranks under Nsight Systems")
WORKER = _file("worker", "a folder: the copy of benchrun and datagen that this run uses")
EVENTS = _file("events.jsonl", "what the launcher did and saw, one JSON object per line")
# Written by the job.
STDOUT = _file("stdout.log", "what the job printed")
STDERR = _file("stderr.log", "its errors and warnings")
SERVER_LOG = _file("server.log", "what a server of a benchmark printed")
CRITIC_LOG = _file("critic.log", "what the critic and the reward model of PPO printed")
SERVER_STOP = _file("server.stop", "exists once the server is to end")
RESULT = _file("result.json", "what the client of a server measured, in the form that it writes")
CHECKPOINT = _file(
    "checkpoint", "a folder: the random weights that a server loads where no checkpoint is stated"
)
PROBE = _file("probe", "a folder: HOST.json, hardware and driver of each node")
TELEMETRY = _file(
    "telemetry", "a folder: HOST.csv, clocks, power and temperature of each GPU, once per second"
)
DATA = _file("data.json", "what datagen wrote about the data set")
DATA_INDEX = _file("data-index", "a folder: megatron-core's shuffled order of the samples")
CEILINGS = _file(
    "ceilings.json", "matrix products, copies and collectives, measured alone before the first step"
)
BREAKDOWN = _file("breakdown.json", "one profiled step after the last")
PROFILE = _file(
    "profile",
    "a folder: traces of the profiled ranks, e.g. rank0.json.gz, or rank0.nsys-rep and .sqlite",
)
FINGERPRINT = _file(
    "fingerprint.json",
    "what was read of the traces of a kept run",
)
RANKS = _file("ranks.json", "how long each rank computed in each step, without collectives")
HOST = _file(
    "host.json",
    "each rank's waits for data and a core, garbage collection and time between steps, by step",
)
NODES = _file("nodes", "a folder: HOST.RANK.json, what each rank measured in a check of nodes")
PROGRESS = _file("progress.json", "what the job's watchdog last read in its log")
HANGS = _file(
    "hangs", "a folder: what each rank did when a hung job was ended: process, stack, collectives"
)
LINKS = _file("nccl", "a folder: what NCCL says of its links, one file a rank")
NO_STEP = _file("no_step_s", "seconds without a step after which the watchdog ended the job")
DONE = _file("done.json", "exit code, signal and restarts, written by the job's EXIT trap")
LOCAL_STATE = _file(
    "local.json", "state and exit code of a local job; process and host of its supervisor"
)
LOCAL_CANCELLED = _file("local.cancelled", "exists once a local job was cancelled")
# Written by the host afterwards.
ENDING = _file("ending.json", "how the job ended, with the evidence")
ENV = _file("env.json", "versions, image and nodes")
STEPS = _file("steps.jsonl", "the parsed steps, one per line")
TELEMETRY_SUMMARY = _file("telemetry.json", "clocks, power and energy over the measured steps")
METRICS = _file("metrics.json", "what was measured")
VERDICT = _file("verdict.json", "how that compares with a reference")
FLEET = _file("fleet.json", "the nodes of a check beside each other, with the outliers")
EXCLUDE = _file("exclude", "the outliers' names, for launch --exclude FILE")

XZ = ".xz"
"""Suffix of a file that is kept compressed."""
LOCAL_LOCK = ".local.lock"
"""File beside the run directories that a job on this machine locks."""


class Ending(str, enum.Enum):
    """How a job ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY_HOST = "out_of_memory_host"
    OUT_OF_MEMORY_GPU = "out_of_memory_gpu"
    NODE_FAILURE = "node_failure"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    """The run ran more than once, so its steps are not one measurement."""
    LAUNCH_FAILED = "launch_failed"
    """Slurm or the runtime could not start the command."""
    IMAGE_MISSING = "image_missing"
    HUNG = "hung"
    """The run stopped making steps, until its step deadline, its time limit or a user
    ended it.
    """
    INCOMPLETE = "incomplete"
    """Exit code 0, but not all planned steps."""
    SCHEDULER_FAILURE = "scheduler_failure"
    """Nobody asked for its end: Slurm dropped it, as after a loss of the controller's
    state.
    """
    LOST = "lost"
    """Neither queue, accounting nor the job's files record how it ended."""


class Done(BaseModel, frozen=True, strict=True):
    """done.json (templates/parts/done.sh.j2). Unknown keys are ignored."""

    exit_code: Annotated[int, Field(ge=0, le=255)]
    """Exit code of the job script."""
    signal: str | None = None
    """Signal that ended it, e.g. TERM."""
    started: str = ""
    """Begin of the job script, UTC; after a restart that of the last one."""
    ended: str = ""
    """End of the job script, UTC."""
    restarts: NonNegativeInt = 0
    """Number of times that Slurm restarted the job."""
    job_id: str = ""
    """Slurm's job id; empty for a local job."""
    host: str = ""
    """First node of the job."""
    no_step_s: int | None = None
    """Seconds without a step after which the job ended itself."""

    @property
    def elapsed_s(self) -> float | None:
        """Seconds from start to end; None if a time is missing or no time."""
        try:
            began = datetime.strptime(self.started, "%Y-%m-%dT%H:%M:%SZ")
            end = datetime.strptime(self.ended, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            return None
        return max((end - began).total_seconds(), 0.0)


class File(Frozen):
    """A document of this package."""

    schema_version: Literal[1] = 1
    """Version of this file's schema."""


class Progress(File):
    """progress.json (templates/parts/watchdog.sh.j2)."""

    checked: str
    """Time at which the watchdog looked, UTC."""
    quiet_s: NonNegativeInt
    """Seconds since the log last grew."""
    no_step_s: NonNegativeInt
    """Seconds since a step was last seen, or since the job began."""
    step_lines: NonNegativeInt = 0
    """Lines of steps so far."""
    step_file: Literal["stdout.log", "stderr.log"] | None = None
    """The log that has the last step; null before the first."""
    step_offset: NonNegativeInt = 0
    """Byte offset from which the watchdog reads on."""


class EndingRecord(File):
    """ending.json: written once, and only with evidence."""

    ending: Ending
    """How the job ended."""
    evidence: tuple[str, ...]
    """Evidence, one line each."""
    exit_code: int | None = None
    """Exit code of the job; null if unknown."""
    last_step: int | None = None
    """The number of the last step in the log."""
    step_time_s: float | None = None
    """Median of the last planned steps of a completed job; metrics.json has the
    measured one.
    """


class Environment(File):
    """env.json: hosts and versions of a run."""

    benchrun: str
    """This package's version."""
    commit: str | None
    """Git commit of this package; null outside a checkout."""
    image: str | None
    """Container image; null without a container."""
    submit_host: str
    """Host that submitted the job."""
    python: str
    """Python version on that host."""
    worker: dict[str, Any] | None
    """Versions that the worker printed at its start, by package."""
    nodes: tuple[dict[str, Any], ...]
    """probe/<host>.json of each node."""
    network: Network | None = None
    """Links of the ranks, as NCCL names them; null if it does not."""


def trained_with(environment: Mapping[str, Any]) -> dict[str, str]:
    """Version by package, of env.json: as the worker printed them, else as the first
    node that names some has them.
    """
    stated = (
        environment.get("worker"),
        *(node.get("versions") for node in objects(environment.get("nodes"))),
    )
    versions = next((each for each in stated if isinstance(each, Mapping) and each), {})
    return {name: str(version) for name, version in versions.items() if version}


def stated_network(environment: Mapping[str, Any]) -> Network | None:
    """The links of the ranks in env.json; None if it has none."""
    with contextlib.suppress(ValidationError):
        return Network.model_validate(environment.get("network"))
    return None


def machine(environment: Mapping[str, Any]) -> dict[str, str]:
    """Software and limits of the GPUs in env.json, by name; several values of nodes are
    joined.
    """
    nodes = objects(environment.get("nodes"))
    gpus = []
    for node in nodes:
        gpus += objects(node.get("gpus"))
    values = {
        "driver": {str(node["driver"]) for node in nodes if node.get("driver")},
        "power limit (W)": {str(gpu["power_limit_w"]) for gpu in gpus if gpu.get("power_limit_w")},
    }
    stated = {}
    for name, each in values.items():
        if each:
            stated[name] = ", ".join(sorted(each))
    return stated | {
        f"version of {name}": version for name, version in trained_with(environment).items()
    }


def objects(values: Any) -> list[Mapping[str, Any]]:
    """The objects in a list of a JSON document; none if that is no list."""
    if not isinstance(values, list | tuple):
        return []
    return [each for each in values if isinstance(each, Mapping)]


class Gemm(Frozen):
    """A matrix product of the model: (m x k) times (k x n) in the forward pass."""

    name: str
    """qkv, proj, fc1, fc2 or logits."""
    m: PositiveInt
    """Rows of the left matrix."""
    n: PositiveInt
    """Columns of the right matrix."""
    k: PositiveInt
    """Inner dimension."""
    count: PositiveFloat
    """Number of times that a GPU computes it per micro-batch, the mean over pipeline
    stages.
    """
    low_precision: bool
    """FP8 training computes it in FP8; the output layer stays in BF16."""
    tflops: dict[Precision, dict[Pass, PositiveFloat]]
    """TFLOPS by precision and pass."""


class CollectiveRate(Frozen):
    """A collective among the ranks of a group."""

    name: str
    """Operation, e.g. all_reduce."""
    group: str
    """Ranks that take part, e.g. tp or dp."""
    ranks: PositiveInt
    """Number of ranks in the group."""
    size_mib: PositiveFloat
    """Size of the message in MiB."""
    bus_gb_per_s: PositiveFloat
    """Bus bandwidth by the convention of nccl-tests: 10^9 bytes/s, times 2 (n - 1) / n
    for all-reduce, (n - 1) / n for the others.
    """


class Ceilings(File):
    """ceilings.json: the slowest rank of each measurement, with all ranks measuring at
    once.
    """

    device: str
    """Name of the GPU."""
    gemms: tuple[Gemm, ...]
    """Matrix products of the model."""
    copy_gb_per_s: PositiveFloat
    """Device to device, bytes read and written."""
    collectives: tuple[CollectiveRate, ...]
    """Collectives of the layout's groups."""
    seconds: NonNegativeFloat
    """Duration of the measurement."""


class Breakdown(File):
    """breakdown.json: a step after the measured ones, in s, the mean over ranks.

    The parts without ``hidden_s`` add up to the step. The time of overlapping kernels
    counts as the first of: matrix products, attention, other kernels, communication.
    """

    step_s: PositiveFloat
    """Step time under the profiler."""
    matmul_s: NonNegativeFloat
    """Matrix products."""
    attention_s: NonNegativeFloat
    """Attention kernels."""
    other_s: NonNegativeFloat
    """Norms, activations, casts, copies, the optimizer."""
    communication_s: NonNegativeFloat
    """Communication that no other kernel hides, with waiting for other ranks and the
    pipeline bubble.
    """
    idle_s: NonNegativeFloat
    """Time without any kernel."""
    hidden_s: NonNegativeFloat
    """Communication that overlaps with other kernels."""
    communication_of_ranks_s: tuple[NonNegativeFloat, ...] = ()
    """``communication_s`` of each rank: one that the others wait for has less than
    they. Older runs have none.
    """
    data_of_ranks_s: tuple[NonNegativeFloat, ...] = ()
    """Seconds that each rank waited for its data loader in that step. Older runs have
    none.
    """
    queued_of_ranks_s: tuple[NonNegativeFloat, ...] = ()
    """Seconds that the threads of each rank waited for a core in that step; empty if
    the system does not count them, and in older runs.
    """

    @property
    def parts(self) -> dict[str, float]:
        """The parts that add up to the step, in s."""
        return {
            "matmul": self.matmul_s,
            "attention": self.attention_s,
            "other kernels": self.other_s,
            "communication": self.communication_s,
            "idle": self.idle_s,
        }

    @property
    def sentence(self) -> str:
        """One line for a person."""
        names = ("matmul", "attention", "other kernels", "communication alone", "nothing")
        shares = zip(
            names, (100 * seconds / self.step_s for seconds in self.parts.values()), strict=True
        )
        listed = ", ".join(f"{name} {share:.1f} %" for name, share in shares)
        return f"{listed} of a profiled step of {self.step_s:.4g} s; {self.hidden_s:.3g} s of communication were hidden"
