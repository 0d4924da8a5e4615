"""What went wrong is recognised by the words of the program that says so, with line, host and rank."""

import math
from pathlib import Path
from typing import Any

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.jobs.endings import AGAIN, Ending
from benchrun.logs import problems as problems_module
from benchrun.logs.kinds import KINDS, ROLES
from benchrun.logs.numerals import number
from benchrun.paths import table

SIGNS = [
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "cuda_oom"),
    ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 496.00 MiB.", "cuda_oom"),
    ("RuntimeError: NPU out of memory. Tried to allocate 30.00 MiB (NPU 3; 60.96 GiB total capacity)", "cuda_oom"),
    ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770 bytes", "cuda_oom"),
    ("RuntimeError: CUDA out of memory", "cuda_oom"),
    ("E0704 worker.py:12 RuntimeError: CUDA error: out of memory", "cuda_oom"),
    ("    raise torch.cuda.OutOfMemoryError(text)", "cuda_oom"),
    ("torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory.", "cuda_oom"),
    ("ncclSystemError: System call (e.g. socket, malloc) or external library call failed", "nccl_error"),
    ('error mounting "/data" to rootfs at "/data": mount /data:/data: no such file or directory', "mount_failed"),
    ("WARNING: mount source /scratch doesn't exist", "mount_failed"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "host_oom"),
    ("slurmstepd: error: Detected 2 oom-kill event(s) in step 3756240.batch cgroup.", "host_oom"),
    ("srun: error: n4: task 0: Out Of Memory", "host_oom"),
    ("slurmstepd-n1: error: StepId=25.1 exceeded memory limit (229720064 > 104857600), being killed", "host_oom"),
    ("[rank3]:[E] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(", "nccl_timeout"),
    ("[PG 0 Rank 0] NCCL watchdog thread terminated with exception: NCCL error: internal error", "nccl_error"),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970", "nccl_error"),
    ("w-0:3468:3905 [4] NCCL WARN NET/IB : Got completion from peer 1.2.3.4 with status=12", "nccl_error"),
    ("[rank2]:[E compiler_depend.ts:320] [Rank 2] HCCL watchdog thread terminated with exception: x", "nccl_error"),
    ("RuntimeError: [4] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d", "nccl_error"),
    ("ProcessGroupNCCL's watchdog got stuck: the NCCL watchdog got stuck for 600 seconds", "hang"),
    ("NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "xid"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "ecc"),
    ("NCCL watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered", "ecc"),
    ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "cuda_error"),
    ("pyxis: failed to import docker image", "image_missing"),
    ("slurmstepd: error: pyxis: couldn't start container", "launch_failed"),
    ("[ERROR] No such file or directory: /images/nemo.sqsh", "image_missing"),
    ("FATAL:   could not open image /images/nemo.sif: no such file", "image_missing"),
    ("ch-run[5396]: error: can't stat: /none/such: No such file or directory (ch_core.c:255 2)", "image_missing"),
    ("slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data at /tmp/x: Permission denied", "mount_failed"),
    ("FATAL: container creation failed: mount hook function failure: mount overlay->/usr/x error", "mount_failed"),
    ("srun: error: n1: task 1: Exited with exit code 7", "rank_crash"),
    ("0: Fatal Python error: Segmentation fault", "segfault"),
    ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "rank_crash"),
    ("E0704 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 3", "rank_crash"),
    ("srun: error: n7: tasks 4-7: Terminated", "rank_crash"),
    ("./train.sh: line 12: 4711 Bus error               (core dumped) python train.py", "shm_full"),
    ("  traceback : Signal 9 (SIGKILL) received by PID 208585", "rank_crash"),
    ("./train.sh: line 12: 4711 Killed                  python train.py", "rank_crash"),
    ('contained.sh: line 27:  4711 Killed                  "$@" 7<&-', "rank_crash"),
    ('rank: line 3:  4711 Terminated              numactl --cpunodebind=$node "$@"', "rank_crash"),
    ("/var/spool/slurmd/job7/slurm_script: line 9:  4711 Terminated              torchrun train.py", "rank_crash"),
    ("W0701 api.py:704] Received Signals.SIGTERM death signal, shutting down workers", "cancelled"),
    ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15", "cancelled"),
    ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", "rank_crash"),
    ("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD", "rank_crash"),
    ("srun: error: Unable to create step for job 12: Invalid generic resource", "launch_failed"),
    ("slurmstepd: error: *** JOB 42221 ON clr1247 CANCELLED AT 2022-04-14 DUE TO TIME LIMIT ***", "time_limit"),
    ("srun: error: Node failure on node-37", "node_failure"),
    ("slurmstepd: error: *** STEP 14456526.0 ON gpu1 CANCELLED AT 2024-12-31T23:30:56 ***", "cancelled"),
    ("AssertionError: Rank 11: found NaN in local grad norm in backward pass before data-parallel", "nan_loss"),
    ("AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3", "nan_loss"),
    ("[loss_scaler.py:183:update_scale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64", "skipped_steps"),
    ("ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #3", "nan_loss"),
    ("ModuleNotFoundError: No module named 'megatron'", "missing_module"),
    ("error: framework megatron-core: No module named 'torch'", "missing_module"),
    ("/usr/bin/python3: No module named benchrun", "missing_module"),
    ("(Worker pid=2) ERROR 11-23 [w.py:1] OSError: [Errno 98] Address already in use", "port_taken"),
    ("ValueError: Free memory on device (1/80 GiB) is less than desired GPU memory utilization (0.9)", "cuda_oom"),
    ("ValueError: Memory on node 0 (9/12 GiB) is less than desired CPU memory utilization (0.92)", "host_oom"),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "cuda_oom"),
    ("benchrun: the server ended before it was ready: no error stands in server.log", "server_failed"),
]  # fmt: skip


def problems(tmp_path: Path, text: str) -> tuple[Any, ...]:
    path = tmp_path / "x.log"
    path.write_text(f"one\n{text}\nthree\n")
    return parse_log(path).problems


@pytest.mark.parametrize(("text", "kind"), SIGNS, ids=[f"{kind}-{n}" for n, (_, kind) in enumerate(SIGNS)])
def test_what_went_wrong_is_recognised(tmp_path: Path, text: str, kind: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert (problem.kind, problem.line) == (kind, 2)
    assert problem.detail in " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: FileNotFoundError: [Errno 2] No such file or directory: 'x.json'",
        "the memory limit of this node is 80 GB",
        "NCCL version 2.27.3+cuda12.9",
        "RESOURCE_EXHAUSTED: no capacity in zone us-central2-b",
        "NCCL INFO NET/IB : Got completion from peer 1.2.3.4 with status=0",
        "rerun_state_machine.py:238 - RerunStateMachine initialized in mode RerunMode.DISABLED",
        "srun: error: ioctl for resizing failed, tasks unaffected",
        "[gemma] OOM score adjusted; error: none",
        "WARNING: to avoid CUDA out of memory errors set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "UserWarning: a batch of this size may lead to CUDA out of memory.",
        "INFO: If you hit an OutOfMemoryError, lower the micro batch size",
        "hint: expandable segments prevent Out Of Memory where the memory is in pieces",
        "node1:123:456 [0] NCCL INFO comm 0x55 async error: ncclSystemError was handled before",
        "node1:123:456 [0] NCCL INFO NCCL_IGNORE_DISABLED_P2P set; last ncclInternalError: none",
        "Killed a stale lock of the cache",
        "Import of cast_to_fp8 from transformer_engine.pytorch failed with: Traceback (most recent call last):",
        "mount source /data, target /data: bound",
        "[WARNING] ValueError: the first batch was skipped",
        "WARNING:root:RuntimeError: no compiled kernel, the slow one is used",
        "2026-01-05 10:00:00,1 - x - WARNING - OSError: [Errno 28] was handled",
        "[W1126 10:00:00.1 socket.cpp:755] [c10d] The client socket has failed to connect to [n1]:29500",
        "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an environment",
        "NCCL INFO ProcessGroupNCCL initialization options: TIMEOUT(ms): 600000",
        "W0000 cuda_blas.cc:183] failed to run cuBLAS routine: CUBLAS_STATUS_NOT_SUPPORTED, trying another one",
        "n1:7:8 [0] NCCL INFO alloc.h:178 Cuda failure 'out of memory'",
        "error mounting of optional folders is ignored",
    ],
)
def test_what_only_sounds_wrong_is_not(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == ()


@pytest.mark.parametrize(
    ("text", "host", "rank"),
    [
        ("srun: error: node-7: task 12: Exited with exit code 1", "node-7", 12),
        ("[rank3]:[E ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout:", None, 3),
        ("[default5]: Traceback (most recent call last):", None, 5),
        (" 55: torch.OutOfMemoryError: CUDA out of memory.", None, 55),
        ("slurmstepd-n12: error: Detected 1 oom_kill event in StepId=7.0.", "n12", None),
        (
            "slurmstepd: error: *** JOB 7 ON clr1247 CANCELLED AT 2022-04-14 DUE TO TIME LIMIT ***",
            "clr1247",
            None,
        ),
        ("gpu-3: Fatal Python error: Segmentation fault", "gpu-3", None),
        ("w-0:3468:3905 [4] NCCL WARN Got completion from peer 1.2.3.4 with status=12", "w-0", None),
    ],
)
def test_host_and_rank_are_read_where_the_line_names_them(
    tmp_path: Path, text: str, host: str | None, rank: int | None
) -> None:
    (problem,) = problems(tmp_path, text)
    assert (problem.host, problem.rank) == (host, rank)


STOPPED = "(APIServer pid=7) INFO 11-24 13:53:27 [launcher.py:100] [shutdown] API server: shutdown triggered"
TRACEBACK = "(APIServer pid=7) ERROR 11-24 13:53:27 [async_llm.py:704] Traceback (most recent call last):"


def test_of_a_long_line_the_words_that_count_are_repeated(tmp_path: Path) -> None:
    text = 3 * "x" * 200 + " RuntimeError: CUDA error: misaligned address " + 300 * "y"
    (problem,) = problems(tmp_path, text)
    assert "misaligned address" in problem.detail


def test_a_server_that_a_signal_ended_did_not_crash(tmp_path: Path) -> None:
    assert problems(tmp_path, f"{STOPPED}\n{TRACEBACK}") == ()
    assert [each.kind for each in problems(tmp_path, f"{TRACEBACK}\n{STOPPED}")] == ["rank_crash"]


def test_a_thousand_ranks_that_die_of_one_cause_are_fifty_lines(tmp_path: Path) -> None:
    text = "\n".join(f"{rank}: torch.OutOfMemoryError: CUDA out of memory." for rank in range(1000))
    assert len(problems(tmp_path, text)) == 50


ROW = (
    " iteration {step:8d}/      30 | elapsed time per iteration (ms): 1000.0 |{loss}"
    " number of skipped iterations: {skipped:3d} | number of nan iterations: {nan:3d} |"
)


def rows(tmp_path: Path, changed: int, **what: int | str) -> list[Any]:
    """Thirty steps, one of which is changed."""
    usual = {"loss": " lm loss: 2.0E+00 |", "skipped": 0, "nan": 0}
    lines = [ROW.format(step=n, **{**usual, **(what if n == changed else {})}) for n in range(1, 31)]
    return [(problem.kind, problem.line) for problem in problems(tmp_path, "\n".join(lines))]


def test_rows_that_say_what_went_wrong(tmp_path: Path) -> None:
    assert rows(tmp_path, 0) == []
    assert rows(tmp_path, 9, nan=1) == [("few_nan_losses", 10)]
    assert rows(tmp_path, 9, loss=" lm loss: nan |") == [("few_nan_losses", 10)]
    assert rows(tmp_path, 9, loss=" lm loss: inf |") == [("few_nan_losses", 10)]
    assert rows(tmp_path, 9, loss=" lm loss: 2.0E+00 | grad norm: nan |") == [("nan_grad", 10)]
    assert rows(tmp_path, 9, loss=" grad norm: inf |", skipped=1) == [("skipped_steps", 10)]  # that is why
    assert rows(tmp_path, 9, skipped=1) == [("skipped_steps", 10)]
    assert rows(tmp_path, 9, loss="") == [("missing_loss", 10)]
    assert rows(tmp_path, 9, loss="", skipped=1) == [("skipped_steps", 10)]  # a skipped step has none


NOTES = {"nan_grad", "skipped_steps"}
"""Kinds that a log may have without being wrong."""


def test_every_kind_that_words_mean_has_its_facts() -> None:
    rows = table(problems_module.__file__)
    assert all(row["words"] or row["where"] == "exception" for row in rows)
    assert all(None not in row for row in rows), "a pattern with a comma needs quotes"
    assert {row["problem"] for row in rows} <= set(KINDS) | NOTES
    assert {row["role"] for row in rows} | {kind.role for kind in KINDS.values()} <= set(ROLES)
    assert {kind.ending for kind in KINDS.values() if kind.ending} <= {ending.value for ending in Ending}
    assert set(AGAIN) == set(Ending)


SPELT = ["nan", "-nan", "-nan(ind)", "nan(0x7fffffff)", "NaN(snan)", "1.#QNAN", "-1.#IND", "1.#INF00", "nan.0", "inf"]


@pytest.mark.parametrize("text", SPELT)
def test_one_grammar_of_what_is_no_number(tmp_path: Path, text: str) -> None:
    value = number(text)
    assert value is not None and not math.isfinite(value)
    assert rows(tmp_path, 9, loss=f" lm loss: {text} |") == [("few_nan_losses", 10)]


def test_json_writes_null_for_a_loss_that_is_no_number(tmp_path: Path) -> None:
    line = '{{"step": {}, "epoch": 0, "loss": null, "grad_norm": 1.5, "tps": 16000.0, "tps_per_gpu": 2000.0}}'
    assert problems(tmp_path, "\n".join(line.format(n) for n in range(20)))[0].kind == "nan_loss"


@pytest.mark.parametrize(("lost", "kind"), [(3, "missing_loss"), (4, "nan_loss")])
def test_losses_that_are_left_out_in_a_tenth_of_the_steps(tmp_path: Path, lost: int, kind: str) -> None:
    losses = ["" if n < lost else f" lm loss: {9 - n / 10} |" for n in range(30)]
    lines = [ROW.format(step=n, loss=loss, skipped=0, nan=0) for n, loss in enumerate(losses, 1)]
    assert {problem.kind for problem in problems(tmp_path, "\n".join(lines))} == {kind}
