"""Each kind of cause is recognised by the words of every program that reports it.

``wordings.csv`` has a line of a program in each row: exceptions of Python and C++, shells, container runtimes, Slurm,
Ray, Kubernetes, the kernel. ``kind`` is empty where the line ends no run.
"""

import re
from pathlib import Path

import pytest

from benchrun.frameworks.logs import parse_log
from benchrun.logs import problems
from benchrun.logs.kinds import KINDS, kind_of
from benchrun.measure.model import ProblemEntry
from benchrun.measure.summary import summarise
from benchrun.paths import table

WORDINGS = table(Path(__file__).with_name("wordings.csv"))
IDS = [f"{row['kind'] or 'harmless'}-{number}" for number, row in enumerate(WORDINGS, 2)]


def fatal(tmp_path: Path, *lines: str) -> ProblemEntry | None:
    path = tmp_path / "x.log"
    path.write_text("\n".join(lines) + "\n")
    return summarise(parse_log(path)).fatal


@pytest.mark.parametrize("row", WORDINGS, ids=IDS)
def test_a_line_alone_names_the_cause(tmp_path: Path, row: dict[str, str]) -> None:
    found = fatal(tmp_path, "Starting", row["line"])
    expected = (row["kind"], 2) if row["kind"] else None
    assert (found and (found.kind, found.line)) == expected


STEPS = [
    f" iteration {n:8d}/       5 | elapsed time per iteration (ms): 1000.0 | global batch size: 64 |"
    f" lm loss: {9 - n / 50:.6E} | grad norm: 1.000 | number of skipped iterations:   0 |"
    for n in range(1, 6)
]
MADE_UP = sorted({row["kind"] for row in WORDINGS if kind_of(row["kind"]).fatal == "steps"})


NOTES = {"nan_grad", "skipped_steps"}
"""Kinds that the rows show, and that are never fatal by their words."""


def test_every_kind_has_a_row_that_says_what_follows() -> None:
    assert {row["problem"] for row in table(problems.__file__)} - set(KINDS) == NOTES


@pytest.mark.parametrize("kind", MADE_UP)
def test_steps_make_up_for_it(tmp_path: Path, kind: str) -> None:
    lines = [row["line"] for row in WORDINGS if row["kind"] == kind]
    assert fatal(tmp_path, *lines, *STEPS) is None


@pytest.mark.parametrize(
    "line",
    [
        "[rank3]: RuntimeError: [/x/gloo/transport/tcp/pair.cc:598] Connection closed by peer",
        "n1:1:2 [3] include/socket.h:398 NCCL WARN Call to recv failed : Connection reset by peer.",
        "./train.sh: line 30: ./upload.sh: No such file or directory",
    ],
)
def test_after_the_last_step_it_harms_nothing(tmp_path: Path, line: str) -> None:
    assert fatal(tmp_path, *STEPS, line) is None
    assert fatal(tmp_path, *STEPS[:-1], line) is not None


TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 7, in f', "    g()"]
SIGTERM = "W0101 10:00:00.1 12 torch/elastic/api.py:704] Received 15 death signal, shutting down"
EXITED = "srun: error: n1: task 3: Exited with exit code 1"
DEAD = "The node with client ID 58 has been marked dead because the monitor has missed heartbeats"
TERMINATE = "terminate called after throwing an instance of 'c10::Error'"
SOCKET = "  what():  Transport endpoint is not connected"
NVLINK = "  what():  CUDA error: uncorrectable NVLink error detected during the execution"
CHILD = ["", "-- Process 3 terminated with the following error:", *TRACEBACK, "KeyError: 'x'"]
SPAWN = "torch.multiprocessing.spawn.ProcessRaisedException: "
DURING = ["", "During handling of the above exception, another exception occurred:", "", *TRACEBACK]
ENGINE = "RuntimeError: Engine process failed to start. See stack trace for the root cause."
NO_DATA = "Dataset does not exist: /data/x"
PERMISSION = "slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/user/7': Permission denied"
PYXIS = ["slurmstepd: error: pyxis: container start failed with error code: 1", PERMISSION]
SQUASH = 'slurmstepd: error: pyxis:     /x/docker.sh: line 337: 12773 Killed                  MOUNTPOINT="${PWD}/r'
OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=1054.0. Some of the step tasks have been OOM Killed."
LIMIT = "salloc: Job 12 has exceeded its time limit and its allocation has been revoked."
WORKER = "RuntimeError: One or more background workers are dead"
NO_PROFILE = "ERROR: the profile h100 was not found"
NVML = "Failed to initialize NVML: Unknown Error"
LORA = [*TRACEBACK[1:], "RuntimeError: Loading lora x failed"]
NO_ADAPTER = "FileNotFoundError: [Errno 2] No such file or directory: 'x/adapter_config.json'"
NO_GLIBC = (
    "WARNING 07-16 22:59:22 ops.py:14] Failed to import x with ImportError(version `GLIBC_2.32' not found (required by"
)
NO_HEADER = "/usr/include/stdlib.h:31:10: fatal error: stddef.h: No such file or directory"
INDUCTOR = "torch._inductor.exc.InductorError: CalledProcessError: Command '['gcc']' returned non-zero exit status 1."
TESTS = "slurmstepd: error: pyxis:     /etc/enroot/hooks.d/5-x.sh: line 39: [: 1(x2): integer expression expected"
LOCALE = "slurmstepd: error: pyxis:     /etc/profile.d/x.sh: line 2: /usr/bin/x: No such file or directory"
WORKSPACE = "slurmstepd: error: pyxis:     /etc/rc: line 4: cd: /workspace: No such file or directory"
RAY = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Runner.run() (pid=7)"
MONITOR = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."
TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
NO_ATTRIBUTE = "AttributeError: 'NoneType' object has no attribute 'sizes'"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        pytest.param([SIGTERM, *TRACEBACK], SIGTERM, id="a signal before a traceback that is cut"),
        pytest.param([*TRACEBACK, EXITED], EXITED, id="srun after a traceback that is cut"),
        pytest.param([DEAD, *TRACEBACK, "ray.worker.RayGetError: x"], DEAD, id="Ray repeats it"),
        pytest.param([TERMINATE, SOCKET, TERMINATE, NVLINK], NVLINK, id="a socket, then the device"),
        pytest.param([*TRACEBACK, "Exception: ", *CHILD], "KeyError: 'x'", id="an old torch spawns"),
        pytest.param([*TRACEBACK, SPAWN, *CHILD], "KeyError: 'x'", id="torch spawns"),
        pytest.param([*TRACEBACK, "KeyError: 'x'", *DURING, ENGINE], "KeyError: 'x'", id="a server"),
        pytest.param([NO_DATA, *TRACEBACK, NO_ATTRIBUTE], NO_DATA, id="the file, then its use"),
        pytest.param([*PYXIS, "slurmstepd: error: pyxis: couldn't start container"], PERMISSION, id="enroot says why"),
        pytest.param([SQUASH, PYXIS[0], OOM], OOM, id="the kernel killed what pyxis had started"),
        pytest.param([LIMIT, "srun: forcing job termination"], LIMIT, id="srun after the time limit"),
        pytest.param([*TRACEBACK, WORKER, OOM], OOM, id="a worker was killed"),
        pytest.param([NO_PROFILE, EXITED], NO_PROFILE, id="srun after an error line"),
        pytest.param(["ERROR: first", NO_PROFILE], NO_PROFILE, id="the last error line"),
        pytest.param([NO_PROFILE, *TRACEBACK, "KeyError: 'x'"], "KeyError: 'x'", id="an exception explains more"),
        pytest.param([NVML, *TRACEBACK, "KeyError: 'x'"], "KeyError: 'x'", id="a program that goes on without NVML"),
        pytest.param([*LORA, *TRACEBACK, NO_ADAPTER, "", *LORA], NO_ADAPTER, id="a chain that is printed twice"),
        pytest.param([*TRACEBACK, NO_ADAPTER, *DURING, LORA[-1]], NO_ADAPTER, id="a chain"),
        pytest.param([NO_GLIBC, *TRACEBACK, "KeyError: 'x'"], "KeyError: 'x'", id="a warning, then an exception"),
        pytest.param([NO_HEADER, "ERROR x.py: the engine failed", *TRACEBACK, INDUCTOR], NO_HEADER, id="a compiler"),
        pytest.param([PYXIS[0], TESTS, LOCALE, WORKSPACE, EXITED], WORKSPACE, id="scripts that go on"),
        pytest.param([RAY, *TRACEBACK[1:], MONITOR], MONITOR, id="Ray's monitor of the memory"),
        pytest.param([RAY, *TRACEBACK[1:], TORCH], TORCH, id="the device's memory in a task of Ray"),
        pytest.param(
            ["    raise RendezvousTimeoutError", "E: x.RendezvousTimeoutError"],
            "E: x.RendezvousTimeoutError",
            id="raised",
        ),
    ],
)
def test_the_line_that_names_the_cause_is_chosen(tmp_path: Path, lines: list[str], cause: str) -> None:
    found = fatal(tmp_path, *lines)
    assert found is not None
    assert found.detail == " ".join(cause.split())


@pytest.mark.parametrize("line", [NO_PROFILE, NVML, "Aborted!"])
def test_an_error_line_fails_no_run_that_did_its_work(tmp_path: Path, line: str) -> None:
    assert fatal(tmp_path, line, *STEPS) is None
    assert fatal(tmp_path, *STEPS, line) is None
    assert fatal(tmp_path, *STEPS[:-1], line) is not None


SKIPPED = "[INFO] [stage_1_and_2.py:676:step] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64"
TIMER = (
    "[timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec=9.5, CurrSamplesPerSec=9.1,"
)


@pytest.mark.parametrize(("rows", "kind"), [([6000], None), ([2000, 4000], None), ([20], "skipped_steps")])
def test_skipped_steps_are_a_share_of_all_steps(tmp_path: Path, rows: list[int], kind: str | None) -> None:
    found = fatal(tmp_path, *[SKIPPED] * 18, *(TIMER.format(row) for row in rows))
    assert (found and found.kind) == kind


CAUGHT = [*TRACEBACK, "ConnectionError: the tracker of run 17 does not answer"]
CAUGHT_AGAIN = [*TRACEBACK, "ConnectionError: the tracker of run 18 does not answer"]
BEHIND = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-05T10:00:00 DUE TO TIME LIMIT ***"
NCCL = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:7, unhandled system error"
ASSERTED = "/opt/x.cu:9: operator(): block: [1,0,0], thread: [2,0,0] Assertion `i < n` failed."
CUDA = "RuntimeError: CUDA error: device-side assert triggered"
CODECACHE = "[rank0]:W0105 10:00:00.1 12 torch/_inductor/codecache.py:17] [0/0] "
IN_WARNING = [CODECACHE + each for each in [*TRACEBACK, "_pickle.UnpicklingError: pickle data was truncated"]]
DESTRUCTOR = ["Exception ignored in: <function Graph.__del__ at 0x7f>", *TRACEBACK]
POINTER = "RuntimeError: Worker failed with error 'Expected x', please check the stack trace above for the root cause"
LONG = "ValueError: the prompt of 9000 tokens is longer than the model's context"
BAD_REQUEST = 'INFO:     10.0.0.1:4242 - "POST /v1/completions HTTP/1.1" 400 Bad Request'
REPLICA = [
    *(*TRACEBACK, "torch.OutOfMemoryError: Caught OutOfMemoryError in replica 3 on device 3."),
    *("Original Traceback (most recent call last):", *TRACEBACK[1:], TORCH),
]
IN_A_MESSAGE = [TRACEBACK[1], "RuntimeError: Traceback (most recent call last):", *TRACEBACK[1:], "KeyError: 'x'"]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        pytest.param([*CAUGHT, *STEPS[:3], *CAUGHT_AGAIN], None, id="an exception that steps followed before"),
        pytest.param([*CAUGHT, *STEPS[:3], *CAUGHT_AGAIN, EXITED], CAUGHT_AGAIN[-1], id="but now the rank has gone"),
        pytest.param([*TRACEBACK, NCCL, *STEPS[:3], BEHIND], BEHIND, id="the time limit, steps after an error"),
        pytest.param([*STEPS, *TRACEBACK, NCCL], None, id="NCCL after the last planned step"),
        pytest.param([ASSERTED, *TRACEBACK, CUDA], CUDA, id="a kernel's assertion, then the exception"),
        pytest.param([ASSERTED], ASSERTED, id="a kernel's assertion alone"),
        pytest.param(IN_WARNING, None, id="a traceback in a warning"),
        pytest.param([*DESTRUCTOR, "AttributeError: x"], None, id="a destructor"),
        pytest.param([*TRACEBACK, POINTER, *DESTRUCTOR, CUDA], CUDA, id="a destructor on a broken device"),
        pytest.param([*TRACEBACK, LONG, BAD_REQUEST], None, id="a request that is refused"),
        pytest.param([*TRACEBACK, LONG], LONG, id="a request without its answer"),
        pytest.param(REPLICA, TORCH, id="a thread of torch"),
        pytest.param([f"        {line}" for line in IN_A_MESSAGE], "KeyError: 'x'", id="a traceback in a message"),
        pytest.param([SIGTERM, EXITED], SIGTERM, id="torchrun was ended"),
        pytest.param([*TRACEBACK, "KeyError: 'x'", SIGTERM], "KeyError: 'x'", id="torchrun was ended for a reason"),
    ],
)
def test_what_was_handled_or_follows_is_not_the_cause(tmp_path: Path, lines: list[str], cause: str | None) -> None:
    found = fatal(tmp_path, *lines)
    kept = found.detail if found and found.kind != "early_end" else None
    assert kept == (cause and " ".join(cause.split()))


@pytest.mark.parametrize(("last", "kind"), [(5, None), (3, "nan_loss")])
def test_the_search_for_a_loss_scale_is_no_lost_loss(tmp_path: Path, last: int, kind: str | None) -> None:
    skipped = [step.replace("iterations:   0", "iterations:   1") for step in STEPS[:3]]
    lost = [re.sub(r"lm loss: \S+", "lm loss: nan", step) for step in skipped]
    found = fatal(tmp_path, *[*lost, *STEPS[3:]][:last])
    assert (found is not None and found.kind == "nan_loss") == (kind is not None)
