"""How jobs die: the last words of each class of crash, as the libraries write them."""

from dataclasses import dataclass
from random import Random

from .forms.base import Line

TRACE = ("Traceback (most recent call last):", '  File "/opt/train.py", line 123, in <module>')


@dataclass(frozen=True)
class Crash:
    """Lines of the failing rank; ``key`` stands in the line that is the cause."""

    lines: tuple[str, ...]
    key: str
    traceback: bool = True
    """Printed by Python after a traceback."""


def _python(*lines: str, key: str | None = None) -> Crash:
    return Crash(lines, key or lines[-1][:40])


def _system(*lines: str, key: str | None = None) -> Crash:
    return Crash(lines, key or lines[0][:40], traceback=False)


CRASHES: dict[str, tuple[Crash, ...]] = {
    "cuda_oom": (
        _python(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 1 has a "
            "total capacity of 79.25 GiB of which 1.20 GiB is free."
        ),
        _python("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.35 GiB total)"),
        _python("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB."),
        _python(
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying "
            "to allocate 34359738368 bytes."
        ),
        _python("RuntimeError: /te/common/util/cuda_runtime.cpp:44 in function x: CUDA Error: out of memory"),
    ),
    "host_oom": (
        _system(
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=123.0. Some of the step "
            "tasks have been OOM Killed."
        ),
        _python("RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed."),
        _python("OSError: [Errno 12] Cannot allocate memory"),
        _python("MemoryError: Unable to allocate 12.0 GiB for an array with shape (3221225472,)"),
    ),
    "cuda_error": (
        _python("RuntimeError: CUDA error: an illegal memory access was encountered"),
        _python("RuntimeError: CUDA error: misaligned address"),
        _python("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
        _python("RuntimeError: CUDA error: device-side assert triggered"),
    ),
    "ecc": (_python("RuntimeError: CUDA error: uncorrectable ECC error encountered"),),
    "nccl_error": (
        _python(
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/"
            "c10d/ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, "
            "NCCL version 2.21.5"
        ),
        _python(
            "RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:825, unhandled "
            "system error, NCCL version 2.7.8"
        ),
    ),
    "nccl_timeout": (
        _system(
            "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=112, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
            key="Watchdog caught collective operation timeout",
        ),
    ),
    "segfault": (
        _system("Fatal Python error: Segmentation fault"),
        _system("srun: error: node1: task 3: Segmentation fault (core dumped)"),
    ),
    "disk_full": (_python("OSError: [Errno 28] No space left on device: '/data/ckpt/iter_0000020'"),),
    "shm_full": (_python("RuntimeError: unable to write to file </torch_4711_1>: No space left on device (28)"),),
    "missing_file": (_python("FileNotFoundError: [Errno 2] No such file or directory: '/data/valid.idx'"),),
    "missing_module": (_python("ModuleNotFoundError: No module named 'amp_C'"),),
    "cancelled": (
        _system("slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-03-01T11:00:00 ***"),
        _system("slurmstepd: error: *** STEP 4711.0 ON node1 CANCELLED AT 2026-03-01T11:00:00 ***"),
    ),
    "preempted": (
        _system("slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-03-01T11:00:00 DUE TO PREEMPTION ***"),
    ),
    "timeout": (
        _system("slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-03-01T11:00:00 DUE TO TIME LIMIT ***"),
    ),
    "rank_crash": (
        _python("ValueError: the number of heads (10) must be divisible by the tensor degree (4)"),
        _python("AssertionError: sequence length 4097 is not a multiple of 8"),
        _python("KeyError: 'input_ids'"),
    ),
}
ALIASES = {"timeout": {"timeout", "time_limit"}, "xid": {"xid"}}
"""Names of a class besides its own."""

PEER = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
    "ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, "
    "NCCL version 2.21.5"
)
"""What the other ranks raise when one has failed."""
AFTER = (
    (),
    tuple(f"[rank0]: {text}" for text in (*TRACE, PEER)),
    (
        "srun: error: node1: task 3: Exited with exit code 1",
        "srun: Terminating StepId=4711.0",
        "slurmstepd: error: *** STEP 4711.0 ON node1 CANCELLED AT 2026-03-01T11:00:05 ***",
    ),
    (
        "E0301 11:00:05.000000 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed "
        "(exitcode: 1) local_rank: 3 (pid: 4714) of binary: /usr/bin/python3",
        "Traceback (most recent call last):",
        '  File "/usr/local/bin/torchrun", line 8, in <module>',
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ),
)
"""What the launchers say afterwards."""
SYSTEM = frozenset({"cancelled", "preempted", "timeout"})
"""Endings of the scheduler: nothing follows."""


def crash_lines(kind: str, number: int, seed: int, ranks: int) -> list[Line]:
    """The last lines of a job that ends by ``kind``, wording ``number``."""
    random = Random(seed + 2)
    wordings = CRASHES[kind]
    crash = wordings[number % len(wordings)]
    rank = random.randrange(ranks)
    texts = [*TRACE, *crash.lines] if crash.traceback else list(crash.lines)
    if crash.traceback and random.random() < 0.5:
        texts = [f"[rank{rank}]: {text}" for text in texts]
    lines = [Line(text, rank, "crash") for text in texts]
    if kind not in SYSTEM:
        lines += [Line(text, 0, "crash") for text in random.choice(AFTER)]
    return lines
