"""What a log says went wrong, in any framework: fixed words of the programs that print them."""

from __future__ import annotations

import re

from benchrun.parse.records import Problem

# (what the program prints, the problem it means). The first that fits a line counts.
_SIGNS: tuple[tuple[bytes, str], ...] = (
    (b"NVRM: Xid (", "xid"),
    (b"fallen off the bus", "xid"),
    (b"uncorrectable ECC error", "ecc"),
    (b"Uncorrectable ECC error", "ecc"),
    (b"double-bit ECC error", "ecc"),
    (b"cudaErrorECCUncorrectable", "ecc"),
    (b"an illegal memory access was encountered", "cuda_error"),
    (b"device-side assert triggered", "cuda_error"),
    (b"unspecified launch failure", "cuda_error"),
    (b"CUDA out of memory", "cuda_oom"),
    (b" out of memory. Tried to allocate", "cuda_oom"),  # HIP, NPU, XPU
    (b"CUDA error: out of memory", "cuda_oom"),
    (b"cudaErrorMemoryAllocation", "cuda_oom"),
    (b"CUBLAS_STATUS_ALLOC_FAILED", "cuda_oom"),
    (b"OutOfMemoryError", "cuda_oom"),
    (b"RESOURCE_EXHAUSTED: ", "cuda_oom"),
    (b"oom_kill event", "host_oom"),
    (b"oom-kill event", "host_oom"),
    (b"oom-kill:constraint", "host_oom"),
    (b"out-of-memory handler", "host_oom"),
    (b"Out Of Memory", "host_oom"),
    (b"Out of memory: Killed process", "host_oom"),
    (b"memory limit", "host_oom"),
    (b"Watchdog caught collective operation timeout", "nccl_timeout"),
    (b"NCCL watchdog got stuck", "hang"),
    (b"heartbeat monitor timed out", "hang"),
    (b"Heartbeat monitor timed out", "hang"),
    (b"CCL watchdog thread terminated", "nccl_error"),
    (b"is setting up NCCL communicator and retr", "nccl_error"),
    (b"NCCL error in:", "nccl_error"),
    (b"NCCL error:", "nccl_error"),
    (b"NCCL Error ", "nccl_error"),
    (b"Got completion from peer", "nccl_error"),
    (b"Call to ibv_modify_qp failed", "nccl_error"),
    (b"ncclSystemError", "nccl_error"),
    (b"ncclInternalError", "nccl_error"),
    (b"ncclRemoteError", "nccl_error"),
    (b"ncclUnhandledCudaError", "nccl_error"),
    # A container that does not start: pyxis and enroot, apptainer and singularity, charliecloud, podman and docker.
    (b"failed to import docker image", "image_missing"),
    (b"failed to create container filesystem", "image_missing"),
    (b"[ERROR] No such file or directory", "image_missing"),
    (b"[ERROR] Invalid image", "image_missing"),
    (b"[ERROR] URL https://", "image_missing"),
    (b"could not open image", "image_missing"),
    (b"Unable to handle docker://", "image_missing"),
    (b"root filesystem extraction failed", "image_missing"),
    (b"initializing source docker://", "image_missing"),
    (b"pull access denied", "image_missing"),
    (b"requested access to the resource is denied", "image_missing"),
    (b"manifest unknown", "image_missing"),
    (b"did not resolve to an alias", "image_missing"),
    (b"invalid reference format", "image_missing"),
    (b"response from daemon: Get ", "image_missing"),
    (b"failed to register layer", "image_missing"),
    (b"writing blob: ", "image_missing"),
    (b"image not known", "image_missing"),
    (b"error: can't stat:", "image_missing"),
    (b"error: unknown image type", "image_missing"),
    (b"--container-mounts: source path does not exist", "mount_failed"),
    (b"--container-mounts: invalid format", "mount_failed"),
    (b"bind source path does not exist", "mount_failed"),
    (b"Error: statfs /", "mount_failed"),
    (b"error: can't bind", "mount_failed"),
    (b"error: can't mkdir:", "mount_failed"),  # of charliecloud: the mount's place in a read-only image
    (b"mount source", "mount_failed"),
    (b"couldn't mount", "mount_failed"),
    (b"error mounting", "mount_failed"),
    (b"error: while mounting ", "mount_failed"),
    (b"mount operation failed", "mount_failed"),
    (b"mount: failed to mount", "mount_failed"),
    (b"mount hook function failure", "mount_failed"),
    (b"couldn't start container", "launch_failed"),  # enroot's own line before it says why
    (b"container creation failed", "launch_failed"),
    (b"executable file not found in $PATH", "launch_failed"),
    (b"switchroot: failed to execute", "launch_failed"),
    (b"error: can't execve", "launch_failed"),
    (b"error: can't cd to", "launch_failed"),
    (b"OCI runtime ", "launch_failed"),
    (b"OCI permission denied", "launch_failed"),
    (b"unresolvable CDI devices", "launch_failed"),
    (b"docker: Error response from daemon: ", "launch_failed"),
    (b"Cannot connect to the Docker daemon", "launch_failed"),
    (b"trying to connect to the Docker daemon", "launch_failed"),
    (b"unknown flag: --", "launch_failed"),
    (b": unrecognized option '", "launch_failed"),
    (b"rank: line ", "launch_failed"),
    (b"contained.sh: line ", "launch_failed"),
    (b"\xe2\x80\x99: No such file or directory", "launch_failed"),
    (b"': No such file or directory", "launch_failed"),
    (b"Task launch for", "launch_failed"),
    (b"error: Invalid MPI type", "launch_failed"),
    (b"Plug-in initialization failed", "launch_failed"),
    (b"Unable to create step", "launch_failed"),
    (b"error: execve():", "launch_failed"),
    (b"srun: fatal:", "launch_failed"),
    (b"DUE TO TIME LIMIT", "time_limit"),
    (b"DUE TO NODE FAILURE", "node_failure"),
    (b"error: Node failure on", "node_failure"),
    (b"DUE TO PREEMPTION", "preempted"),
    (b" CANCELLED AT 20", "cancelled"),
    (b"Unable to allocate resources", "launch_failed"),
    (b"ModuleNotFoundError: ", "missing_module"),
    (b"found NaN in local grad", "nan_grad"),
    (b"Unexpected result nan", "nan_grad"),
    (b"found Inf in local grad", "nan_grad"),
    (b"found NaN in local forward loss", "nan_loss"),
    (b"Skipping step. Attempted loss scale", "skipped_steps"),
    (b"NaN or Inf found in input tensor", "nan_grad"),
    (b"Traceback (most recent call last)", "rank_crash"),
    (b"Exited with exit code", "rank_crash"),
    (b"Segmentation fault", "rank_crash"),
    (b"Fatal Python error: ", "rank_crash"),
    (b"ChildFailedError", "rank_crash"),
    (b"failed (exitcode: ", "rank_crash"),
    (b"srun: error: ", "rank_crash"),
    (b"(core dumped)", "rank_crash"),
    (b"Killed by signal", "rank_crash"),
    (b") received by PID ", "rank_crash"),
    (b" Killed   ", "rank_crash"),  # a shell's word of its command
    (b" Terminated   ", "rank_crash"),
    (b" death signal, shutting down", "rank_crash"),
    (b"SignalException: Process ", "rank_crash"),
    (b"srun: Job step aborted", "rank_crash"),
    (b"MPI_ABORT was invoked", "rank_crash"),
    (b"MPI_Abort(MPI_COMM_WORLD", "rank_crash"),
)
IGNORED = "Exception ignored "
"""Python's words before a traceback that ends nothing, as of a destructor at interpreter shutdown."""
NEEDLES = (*(words for words, _ in _SIGNS), IGNORED.encode())
_TEXTS = tuple((words.decode(), kind) for words, kind in _SIGNS)
_UNRUNNABLE = re.compile(r": line \d+: .*(not found|No such file or directory|Permission denied|Is a directory)$")
# enroot says only "[ERROR] No such file or directory: x.sqsh"; Python says the same words of any file.
_NOT_IN_DEBUG_LINES = re.compile(r"^(?!.*NCCL (INFO|TRACE))")
_ONLY_BESIDE = {
    # An exception, or a line that says nothing else; warnings and hints name these words too.
    "CUDA out of memory": re.compile(
        r"((error|exception)\W{1,3}|^\W*(\w+\]?:\s*)?)CUDA out of memory|CUDA out of memory\W{1,3}Tried",
        re.IGNORECASE,
    ),
    "OutOfMemoryError": re.compile(r"OutOfMemoryError([:('\")>]|\s*$)"),
    "Out Of Memory": re.compile(r"error.*Out Of Memory|Out Of Memory\W*$"),
    **dict.fromkeys(
        ("ncclSystemError", "ncclInternalError", "ncclRemoteError", "ncclUnhandledCudaError"), _NOT_IN_DEBUG_LINES
    ),
    **dict.fromkeys((" Killed   ", " Terminated   "), re.compile(r": line \d+:\s+\d+ (Killed|Terminated) ")),
    "mount source": re.compile(r"doesn't exist|does not exist|no such file", re.IGNORECASE),
    "error mounting": re.compile(r'error mounting "'),
    "memory limit": re.compile(
        r"(exceeded|over) (job |step |the )?memory limit|memory limit .*exceeded", re.IGNORECASE
    ),
    # podman tries three times, and may succeed.
    **dict.fromkeys(("initializing source docker://", "writing blob: "), re.compile(r"^(?!.*retrying)", re.IGNORECASE)),
    # What a rank's shell says of a command that it cannot run, and not what other scripts say of theirs.
    "rank: line ": _UNRUNNABLE,
    "contained.sh: line ": _UNRUNNABLE,
    "\u2019: No such file or directory": re.compile("env: \u2018"),
    "': No such file or directory": re.compile("env: '"),
    "error: can't mkdir:": re.compile(r"ch-run"),
    "RESOURCE_EXHAUSTED: ": re.compile(r"memory|allocat", re.IGNORECASE),
    "srun: error: ": re.compile(r"srun: error: [\w.-]{1,255}: tasks? \d"),
    "Got completion from peer": re.compile(r"status=(?!0\b)\d"),
}
_HOST = re.compile(
    r"srun: error: (?P<srun>[\w.-]{1,255}): tasks? |slurmstepd-(?P<stepd>[\w.-]{1,255}):"
    r"| ON (?P<on>[\w.-]{1,255}) CANCELLED|^(?P<pdsh>[A-Za-z][\w.-]{0,254}\d): "
    r"|(?<![\w.-])(?P<nccl>[\w.-]{1,255}):\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL"
)
_RANK = re.compile(
    r"\[(?:rank|Rank |default)(\d{1,7})\]|\b[Rr]ank[ :=]+(\d{1,7})\b|: tasks? (\d{1,7})[:,-]|^\s*(\d{1,7}): "
)
MOST = 50
"""No more than this many of one kind are kept: a thousand ranks die of one cause."""


def rank_of(text: str) -> int | None:
    """The rank that printed a line, where it says so."""
    match = _RANK.search(text)
    return int(match[match.lastindex or 0]) if match else None


def recognise(text: str, line: int) -> Problem | None:
    """The problem that ``text`` reports, if any, with host and rank where the line names them."""
    for words, kind in _TEXTS:
        if words in text and _really(words, text):
            host = _HOST.search(text)
            return Problem(
                kind,
                line,
                " ".join(text.split())[:240],
                host=host[host.lastgroup or 0] if host else None,
                rank=rank_of(text),
            )
    return None


def _really(words: str, text: str) -> bool:
    """Some words mean a problem only beside others."""
    beside = _ONLY_BESIDE.get(words)
    return beside is None or beside.search(text) is not None
