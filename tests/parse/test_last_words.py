"""The last words of programs, handlers of signals, launchers and schedulers are understood; notices are harmless."""

from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.measure.model import ProblemEntry
from benchrun.measure.summary import summarise

WORDS = {
    "segfault": [
        "Segmentation fault (core dumped)",
        "(Actor pid=7) [2026-01-05 E 7 7] logging.cc:501: *** SIGSEGV received at time=1767600000 on cpu 9 ***",
        "*** SIGSEGV (@0x0) received by PID 7 (TID 0x7f) from PID 0; stack trace: ***",
        "mpirun noticed that process rank 1 with PID 7 on node n1 exited on signal 11 (Segmentation fault).",
        "[7.1] python[99]: segfault at 0 ip 00007f10 sp 00007f20 error 4 in libc.so.6",
    ],
    "rank_crash": [
        "Killed",
        "Aborted (core dumped)",
        "*** SIGABRT received at time=1767600000 on cpu 3 ***",
        "*** Aborted at 1767600000 (unix time) try date ***",
        "F0105 10:00:00.123456 7 executor.cc:99] Check failed: status.ok()",
        "free(): invalid pointer",
        "malloc(): corrupted top size",
        "double free or corruption (!prev)",
        "corrupted size vs. prev_size",
        "*** stack smashing detected ***: terminated",
        "terminate called after throwing an instance of 'E'\n  what():  no such layer",
        "python: /x/y.cpp:12: void f(): Assertion `a == b' failed.",
        "LLVM ERROR: out of registers",
        "*** An error occurred in MPI_Allreduce\n*** MPI_ERRORS_ARE_FATAL (processes will abort)",
        "Abort(7) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "ray.exceptions.RayTaskError(NotImplementedError): ray::Runner.run() (pid=7)",
        "Terminating process because the JAX distributed service detected fatal errors.",
        "  exitcode  : -9 (pid: 7)",
        "[rank: 1] Child process with PID 7 terminated with code 1.",
        "command terminated with exit code 137",
        "train.py: error: unrecognized arguments: --depth",
        "Error: No such option: --depth",
        "Error executing job with overrides: ['a=b']",
        "make: *** [Makefile:3: train] Error 1",
    ],
    "cuda_error": ["CUDA Error 700 : an address", "n1: Test CUDA failure common.cu:104 'invalid argument'"],
    "nccl_error": [
        "n1: Test NCCL failure common.cu:958 'unhandled system error'",
        "n1:7:9 [0] misc/socket.cc:456 NCCL WARN socketStartConnect: Connect to 10.0.0.1<4> failed : No route",
        "ncclInvalidUsage: This usually reflects invalid usage of the library.",
        "init.cu:763: non-zero status: 7 nvshmem setup connections failed",
    ],
    "nccl_timeout": ["[Rank 1] Received a dump signal due to a collective timeout from rank 3, dump the debug info"],
    "hang": [
        "[rank2]:[E x.cpp:1484] [Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds",
        "[rank2]:[F x.cpp:1557] Terminating the process, due to ProcessGroupNCCL watchdog hang.",
    ],
    "nan_loss": [
        "Loss is nan, stopping training",
        "step 100: train loss nan, val loss nan",
        "AssertionError: Rank 3: found NaN in local grad norm in backwards pass. Device: 3",
        "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite",
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        "FloatingPointError: invalid value (nan) encountered in jit(step)",
    ],
    "shm_full": [
        "train.sh: line 3: 991 Bus error               python t.py",
        "srun: error: n1: task 3: Bus error (core dumped)",
        "*** SIGBUS (@0x7f) received by PID 7 (TID 0x7f) from PID 0; stack trace: ***",
        "Fatal Python error: Bus error",
        "  exitcode  : -7 (pid: 10)\n  traceback : Signal 7 (SIGBUS) received by PID 10",
        "mpirun noticed that process rank 1 with PID 7 on node n1 exited on signal 7 (Bus error).",
        "trainer-1 exited with code 135",
        "n1:7:9 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-a1 to 9 bytes: No space left on device (28)",
    ],
    "disk_full": ["tar: /x: Cannot write: Disk quota exceeded", "SafetensorError: IoError(Os { code: 122, kind: Q })"],
    "image_missing": [
        'Failed to pull image "x:1": rpc error: code = Unknown desc = name unknown',
        "train-0   0/1   ImagePullBackOff   0   3m",
        "FATAL:   While making image from oci registry: no checksum",
    ],
    "mount_failed": ['Warning FailedMount 2s kubelet MountVolume.SetUp failed for volume "x"'],
    "launch_failed": [
        "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
        "FATAL:   Failed to create user namespace",
        "train.sh: line 4: torchrun: command not found",
        "There are not enough slots available in the system to satisfy the 8 slots",
        "ssh: connect to host n2 port 22: Connection refused",
    ],
    "node_failure": [
        "E coordination_service.cc:954] task:3 has been set to ERROR in coordination service: UNAVAILABLE: Task task:3"
        " heartbeat timeout. This indicates that it failed",
        "The actor is dead because its node has died.",
    ],
    "cancelled": [
        "W0105 elastic/agent/server/api.py:704] Received 1 death signal, shutting down workers",
        "W0105 api.py:897] Sending process 7 closing signal SIGHUP",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 1",
        "KeyboardInterrupt",
    ],
    "preempted": ["Pod was terminated in response to imminent node shutdown."],
    "xid": ["nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 12028, Fatal, Link 1 error"],
    "missing_module": ["python: symbol lookup error: /x/y.so: undefined symbol: z"],
}
"""Kind -> last words of programs, handlers, launchers and schedulers that are no exception of Python."""


def fatal(tmp_path: Path, text: str) -> ProblemEntry | None:
    path = tmp_path / "x.log"
    path.write_text(text + "\n")
    return summarise(parse_log(path)).fatal


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in WORDS.items() for text in texts])
def test_last_words_alone_name_the_kind(tmp_path: Path, kind: str, text: str) -> None:
    found = fatal(tmp_path, text)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    "line",
    [
        "UserWarning: Loss is nan in validation, skipping",
        "if loss is nan: stop",
        "0: Requests Aborted: 0, Killed: 0",
        "a worker finished with exit code 0",
        "(raylet) *** SIGTERM received at time=1767600000 on cpu 3 ***",
        "n1:7:9 [0] NCCL INFO NET/Socket : Connect failed, retrying",
        "run.sh: line 3: module: command not found",
        "the request was preempted and comes back later",
        "--check-for-nan-in-loss-and-grad ............ True",
        "retries: 3, Assertion `x` is documented",
    ],
)
def test_notices_with_words_of_failures_are_harmless(tmp_path: Path, line: str) -> None:
    assert fatal(tmp_path, line) is None


@pytest.mark.parametrize(
    ("first", "then", "kind"),
    [
        ("RuntimeError: NCCL Error 3: internal error", "[E x.cpp:7] Timeout at NCCL work: 7", "nccl_error"),
        ("RuntimeError: CUDA error: misaligned address", "  what():  CUDA error: misaligned address", "cuda_error"),
        ("pyxis: failed to import docker image", "pyxis: [ERROR] URL https://r.io/x: 401", "image_missing"),
        ("W0105 agent/api.py:704] Received 15 death signal, shutting down workers",
         "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-05T10:00:00 DUE TO TIME LIMIT ***", "time_limit"),
        ("srun: error: n1: task 0: Exited with exit code 1", "api.py:897] Received 15 death signal, shutting down",
         "rank_crash"),
    ],
)  # fmt: skip
def test_of_two_lines_the_cause_is_told_from_its_consequence(tmp_path: Path, first: str, then: str, kind: str) -> None:
    found = fatal(tmp_path, f"{first}\n{then}")
    told = then if kind in ("image_missing", "time_limit") else first
    assert found is not None
    assert (found.kind, found.detail) == (kind, told.strip())
