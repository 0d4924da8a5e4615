"""The cause of a crash is one, whatever its wording, and whatever was printed around it and after it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import parse_log
from benchrun.measure.model import Summary
from benchrun.measure.summary import summarise

STEPS = [
    f" iteration {n:8d}/      50 | elapsed time per iteration (ms): 1000.0 | global batch size:    64 |"
    f" lm loss: {9 - n / 50:.6E} | grad norm: 1.000 | number of skipped iterations:   0 |"
    for n in range(1, 6)
]
BYTES = st.integers(1, 10**11)
GIB = st.floats(0.01, 200).map(lambda size: f"{size:.2f} GiB")
NAMES = st.sampled_from(["/data/my-gpt_text_document.idx", "tokenizer.model", "config/llama3.yaml"])
HOSTS = st.sampled_from(["n1", "gpu-17", "10.0.0.4"])
PIDS = st.integers(2, 400_000)

LAST_LINES: dict[str, list[st.SearchStrategy[str]]] = {
    "cuda_oom": [
        GIB.map(lambda size: f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU 3 has"),
        GIB.map(lambda size: f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}"),
        PIDS.map(lambda n: f"RuntimeError: /opt/te/common/x.cu:{n} in function f: CUDA Error: out of memory"),
        st.just("RuntimeError: CUDA driver error: out of memory"),
        BYTES.map(lambda n: f"jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating {n} bytes."),
        st.just("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        st.just("RuntimeError: Triton Error [CUDA]: out of memory"),
        GIB.map(lambda size: f"torch.OutOfMemoryError: HIP out of memory. Tried to allocate {size}"),
    ],
    "host_oom": [
        PIDS.map(lambda n: f"RuntimeError: DataLoader worker (pid {n}) is killed by signal: Killed."),
        st.just("OSError: [Errno 12] Cannot allocate memory"),
        st.just("MemoryError"),
        GIB.map(lambda s: f"numpy.core._exceptions._ArrayMemoryError: Unable to allocate {s} for an array"),
        BYTES.map(lambda n: f"RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to get {n} bytes"),
    ],
    "shm_full": [
        PIDS.map(lambda n: f"RuntimeError: DataLoader worker (pid {n}) is killed by signal: Bus error."),
        PIDS.map(lambda n: f"RuntimeError: unable to write to file </torch_{n}_2>"),
        BYTES.map(lambda n: f"RuntimeError: unable to mmap {n} bytes from file </torch_7_1>: Cannot allocate"),
        st.just("OSError: [Errno 28] No space left on device: '/dev/shm/x'"),
    ],
    "disk_full": [
        NAMES.map(lambda name: f"OSError: [Errno 28] No space left on device: '{name}'"),
        st.just("OSError: [Errno 122] Disk quota exceeded"),
        PIDS.map(lambda n: f"RuntimeError: PytorchStreamWriter failed writing file data/{n}: file write failed"),
    ],
    "cuda_error": [
        st.sampled_from(
            [
                "misaligned address",
                "an illegal memory access was encountered",
                "an illegal instruction was encountered",
                "uncorrectable NVLink error detected during the execution",
                "device-side assert triggered",
                "unspecified launch failure",
                "CUBLAS_STATUS_EXECUTION_FAILED when calling `f(...)`",
                "invalid device ordinal",
                "the launch timed out and was terminated",
            ]
        ).map(lambda what: f"RuntimeError: CUDA error: {what}"),
        st.sampled_from(["EXECUTION_FAILED", "NOT_SUPPORTED"]).map(
            lambda what: f"RuntimeError: cuDNN error: CUDNN_STATUS_{what}"
        ),
        st.just("RuntimeError: Error 802: system not yet initialized"),
        st.just("jax.errors.JaxRuntimeError: INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"),
        st.just("RuntimeError: No CUDA GPUs are available"),
    ],
    "ecc": [st.just("RuntimeError: CUDA error: uncorrectable ECC error encountered")],
    "nccl_error": [
        st.just("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited"),
        PIDS.map(
            lambda n: (
                f"RuntimeError: [{n}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via"
                " c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"
            )
        ),
        st.just("RuntimeError: NCCL operation ncclCommInitRank(&comm, n, id, rank) failed: unhandled cuda error"),
    ],
    "rendezvous": [
        HOSTS.map(
            lambda host: (
                "torch.distributed.DistNetworkError: The client socket has failed to connect to"
                f" [{host}]:29500 (errno: 111 - Connection refused)."
            )
        ),
        HOSTS.map(lambda host: f"TimeoutError: The client socket has timed out after 900s while connecting to {host}"),
        PIDS.map(lambda n: f"torch.distributed.DistStoreError: Timed out after {n} seconds waiting for clients. 1/2"),
        st.just("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection has failed."),
        st.just("jaxlib.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect."),
    ],
    "missing_module": [
        st.just("ModuleNotFoundError: No module named 'transformer_engine'"),
        st.just("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),
        st.just("ImportError: cannot import name 'x' from 'megatron.core'"),
    ],
    "missing_file": [
        NAMES.map(lambda name: f"FileNotFoundError: [Errno 2] No such file or directory: '{name}'"),
        NAMES.map(lambda name: f"OSError: {name} does not appear to have a file named config.json"),
    ],
    "port_taken": [st.just("OSError: [Errno 98] Address already in use")],
    "nan_loss": [
        PIDS.map(lambda n: f"FloatingPointError: Loss became infinite or NaN at iteration={n}!"),
        st.just("FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."),
        st.just("AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3"),
    ],
    "rank_crash": [
        PIDS.map(lambda n: f"ValueError: the number of heads ({n}) is not divisible by the tensor parallel size (4)"),
        st.just("AssertionError"),
        st.just("omegaconf.errors.ConfigAttributeError: Key 'tp' is not in struct"),
        NAMES.map(lambda name: f"PermissionError: [Errno 13] Permission denied: '{name}'"),
        st.just("KeyError: 'lm loss'"),
        st.just("my.package.Unusual: something of its own"),
    ],
}
"""Kind -> last lines of exceptions."""
EXCEPTIONS = st.sampled_from(sorted(LAST_LINES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.one_of(LAST_LINES[kind]))
)

BEFORE = [
    [],
    ["srun: error: ioctl for resizing failed, tasks unaffected"],
    ["node1:123:456 [0] NCCL INFO comm 0x55 init complete", "WARNING: to avoid CUDA out of memory errors set x=1"],
    ["UserWarning: RuntimeError: was raised by an older release", "[W socket.cpp:601] The client socket has failed"],
]
REMOTE = "torch.distributed.DistBackendError: NCCL error in: a.cpp:1970, remote process exited or there was a network"
SEGFAULT = "srun: error: n1: task 3: Segmentation fault (core dumped)"
AFTER = [
    [],
    ["srun: error: n1: task 3: Exited with exit code 1", "srun: Job step aborted: Waiting up to 32 seconds"],
    ["slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-05T10:00:00 ***", "srun: error: n1: task 1: Killed"],
    [
        "E0105 10:00:00.1 7 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0",
        "Traceback (most recent call last):",
        '  File "/usr/bin/torchrun", line 8, in <module>',
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "train.py FAILED",
    ],
    ["[rank1]: Traceback (most recent call last):", '[rank1]:   File "a.py", line 7, in g', "[rank1]: EOFError"],
    ["./train.sh: line 12: 4711 Aborted                 (core dumped) python train.py"],
]


def frames(depth: int) -> list[str]:
    """Lines of a traceback before its last one."""
    calls = [f'  File "/opt/a{n}.py", line {n}, in f{n}\n    return f{n + 1}(out_of_memory)' for n in range(depth)]
    return "\n".join(["Traceback (most recent call last):", *calls]).split("\n")


def labelled(label: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda lines: [f"{label}{line}" for line in lines]


def docker(lines: Sequence[str]) -> list[str]:
    return [json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-01-05T10:00:01Z"}) for line in lines]


def cloud(lines: Sequence[str]) -> list[str]:
    return [json.dumps({"severity": "ERROR", "textPayload": "\n".join(lines)})]


WRAPPERS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "bare": list,
    "srun": labelled("3: "),
    "srun, two digits": labelled("12: "),
    "torch": labelled("[rank5]: "),
    "torchrun": labelled("[default2]:[rank2]: "),
    "both": labelled(" 7: [rank7]: "),
    "Ray": labelled("(WorkerDict pid=2862157) "),
    "colours": labelled("\x1b[36m(Worker pid=7)\x1b[0m "),
    "logger": labelled("ERROR 11-23 10:00:00 [core.py:704] "),
    "docker compose": labelled("vllm-1 | (Worker_TP0 pid=231) ERROR 10-17 16:33:43 [executor.py:623] "),
    "clock": labelled("2026-01-05 10:00:00,123 node-4 "),
    "pdsh": labelled("gpu-3: "),
    "stream, more blanks": labelled("2026-01-05T10:00:01.000Z /  "),
    "host, more blanks": labelled("node-4:    "),
    "docker": docker,
    "cloud": cloud,
    "time since the start": lambda lines: [f"[+{n * 1.37:9.3f}] {line}" for n, line in enumerate(lines)],
    "CRLF": lambda lines: [f"{line}\r" for line in lines],
}


def summary(tmp_path: Path, lines: Sequence[str]) -> Summary:
    path = tmp_path / "x.log"
    path.write_text("\n".join(lines) + "\n")
    return summarise(parse_log(path))


def test_an_exception_that_a_sound_run_handled_is_no_crash(tmp_path: Path) -> None:
    handled = [*frames(2), "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443)"]
    planned = [line.replace("/      50", "/       5") for line in STEPS]
    assert summary(tmp_path, [*planned[:3], *handled, *planned[3:]]).problems == ()
    assert [each.kind for each in summary(tmp_path, [*STEPS[:3], *handled, *STEPS[3:]]).problems] == [
        "rank_crash",
        "early_end",
    ]


def assert_cause(found: Summary, kind: str, last: str) -> None:
    """The fatal problem is of this kind, says the last line, and no other cause is listed."""
    assert found.fatal is not None
    assert (found.fatal.kind, last.strip()[:60] in found.fatal.detail) == (kind, True), found.fatal
    assert {each.kind for each in found.problems} <= {kind, "early_end", "truncated_file"}


EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EXAMPLES
@given(
    exception=EXCEPTIONS,
    wrapper=st.sampled_from(sorted(WRAPPERS)),
    before=st.sampled_from(BEFORE),
    after=st.sampled_from(AFTER),
    depth=st.integers(1, 5),
    steps=st.booleans(),
)
def test_the_last_line_of_the_first_exception_is_the_cause(
    tmp_path: Path,
    exception: tuple[str, str],
    wrapper: str,
    before: list[str],
    after: list[str],
    depth: int,
    steps: bool,
) -> None:
    kind, last = exception
    block = WRAPPERS[wrapper]([*frames(depth), last])
    found = summary(tmp_path, [*before, *(STEPS if steps else []), *block, *after])
    assert_cause(found, kind, last)


@EXAMPLES
@given(exception=EXCEPTIONS, ranks=st.integers(2, 20), pick=st.randoms(use_true_random=False))
def test_ranks_that_print_between_each_other_are_told_apart(
    tmp_path: Path, exception: tuple[str, str], ranks: int, pick: object
) -> None:
    kind, last = exception
    blocks = [labelled(f"{rank}: ")([*frames(3), last]) for rank in range(ranks)]
    lines = []
    while blocks:
        block = pick.choice(blocks)  # type: ignore[attr-defined]
        lines.append(block.pop(0))
        blocks = [each for each in blocks if each]
    assert_cause(summary(tmp_path, [*STEPS, *lines]), kind, last)


@pytest.mark.parametrize("noise", ["UserWarning: The given buffer is not writable", "Epoch 3: 10 of 50", "  warn(x)"])
def test_what_others_print_within_a_traceback_is_not_its_last_line(tmp_path: Path, noise: str) -> None:
    header, *calls = frames(2)
    assert_cause(summary(tmp_path, [header, noise, *calls, noise, "KeyError: 'x'"]), "rank_crash", "KeyError: 'x'")


RESOURCES = ["cuda_oom", "host_oom", "shm_full", "disk_full", "ecc"]
CHAINED = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
]


@EXAMPLES
@given(
    kind=st.sampled_from(RESOURCES),
    data=st.data(),
    words=st.sampled_from(CHAINED),
    wrapper=st.sampled_from(["bare", "srun", "torch", "docker"]),
    first=st.booleans(),
)
def test_of_a_chain_the_resource_is_the_cause(
    tmp_path: Path, kind: str, data: st.DataObject, words: str, wrapper: str, first: bool
) -> None:
    resource = data.draw(st.one_of(LAST_LINES[kind]))
    other = data.draw(st.one_of(LAST_LINES["rank_crash"]))
    parts = [resource, other] if first else [other, resource]
    lines = [*frames(2), parts[0], "", words, "", *frames(3), parts[1]]
    found = summary(tmp_path, WRAPPERS[wrapper](lines))
    assert found.fatal is not None
    assert (found.fatal.kind, resource[:60] in found.fatal.detail) == (kind, True), found.fatal


def test_of_a_chain_without_a_resource_the_first_exception_is_the_cause(tmp_path: Path) -> None:
    lines = [*frames(1), "KeyError: 'x'", "", CHAINED[0], "", *frames(2), "ValueError: no model x"]
    assert_cause(summary(tmp_path, lines), "rank_crash", "KeyError: 'x'")


@pytest.mark.parametrize("wrapper", sorted(set(WRAPPERS) - {"cloud", "docker"}))
@pytest.mark.parametrize("last", ["KeyError: 'x'", "pkg.errors.Unusual: it", "pkg.rendezvous.OwnTimeoutError"])
def test_a_traceback_without_its_header_ends_with_its_exception(tmp_path: Path, wrapper: str, last: str) -> None:
    lines = [*frames(3)[1:], "    raise OwnTimeoutError", last]
    assert_cause(summary(tmp_path, WRAPPERS[wrapper](lines)), "rank_crash", last)


@pytest.mark.parametrize("wrapper", ["bare", "docker compose", "Ray"])
def test_a_group_of_exceptions_gives_the_first_of_them(tmp_path: Path, wrapper: str) -> None:
    group = "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"
    outer = [f"  | {line}" for line in [*frames(2)[1:], group]]
    inner = [f"    | {line}" for line in [*frames(1), "KeyError: 'x'"]]
    header = "  + Exception Group Traceback (most recent call last):"
    lines = [header, *outer, "  +-+---------------- 1 ----------------", *inner]
    end = "    +------------------------------------"
    assert_cause(summary(tmp_path, WRAPPERS[wrapper]([*lines, end])), "rank_crash", "KeyError: 'x'")


def test_a_stack_without_an_exception_is_no_traceback(tmp_path: Path) -> None:
    later = [f"step {n} of something" for n in range(9)]
    assert summary(tmp_path, [*frames(3)[1:], *later, "pkg.module.Note: all is well"]).fatal is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("n3:77:99 [3] include/alloc.h:178 NCCL WARN Cuda failure 2 'out of memory'", "cuda_oom"),
        ("n1:77:99 [0] shm.h:48 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x", "shm_full"),
        ("NVRM: Xid (PCI:0000:4e:00): 79, pid=7, GPU has fallen off the bus.", "xid"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "host_oom"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "host_oom"),
    ],
)
def test_a_line_before_the_exception_that_names_the_resource_is_the_cause(tmp_path: Path, line: str, kind: str) -> None:
    last = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:7, unhandled system error"
    assert_cause(summary(tmp_path, [*STEPS, line, *frames(2), last, *AFTER[1]]), kind, line[:40])


def test_a_resource_in_the_rest_of_the_message_is_the_cause(tmp_path: Path) -> None:
    last = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:7, unhandled cuda error"
    rest = ["ncclUnhandledCudaError: Call to CUDA function failed.", "Last error:", "Cuda failure 'out of memory'"]
    assert_cause(summary(tmp_path, [*frames(2), last, *rest]), "cuda_oom", rest[-1])


@pytest.mark.parametrize("epilogue", AFTER[1:])
def test_what_a_launcher_says_first_or_last_is_not_the_cause(tmp_path: Path, epilogue: list[str]) -> None:
    last = "RuntimeError: CUDA error: misaligned address"
    block = labelled("[rank0]: ")([*frames(2), last])
    if "EOFError" not in epilogue[-1]:
        assert_cause(summary(tmp_path, [*STEPS, *epilogue, *block]), "cuda_error", last)
    assert_cause(summary(tmp_path, [*STEPS, *block, *epilogue]), "cuda_error", last)


@EXAMPLES
@given(exception=EXCEPTIONS, wrapper=st.sampled_from(sorted(set(WRAPPERS) - {"cloud"})), data=st.data())
def test_a_cut_log_never_gives_the_header_as_cause(
    tmp_path: Path, exception: tuple[str, str], wrapper: str, data: st.DataObject
) -> None:
    text = "\n".join([*STEPS, *WRAPPERS[wrapper]([*frames(2), exception[1]]), *AFTER[1]])
    (tmp_path / "x.log").write_text(text[: data.draw(st.integers(1, len(text)))])
    fatal = summarise(parse_log(tmp_path / "x.log")).fatal
    assert fatal is None or "most recent call last" not in fatal.detail


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["srun: error: n1: task 3: Segmentation fault (core dumped)", "srun: Job step aborted: Waiting"], "segfault"),
        (["[n1:7] *** Process received signal ***", "Caught signal 11 (Segmentation fault: address 0x0)"], "segfault"),
        (["  exitcode  : -11 (pid: 6421)", "  traceback : Signal 11 (SIGSEGV) received by PID 6421"], "segfault"),
        (["srun: error: n1: task 0: Exited with exit code 139"], "segfault"),
        (["3: Fatal Python error: Segmentation fault", "3: Current thread 0x7f (most recent call first):"], "segfault"),
        (["srun: Job step aborted: Waiting up to 32 s", "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-05"
          "T10:00:00 ***", "srun: error: n1: tasks 0-3: Terminated"], "cancelled"),
        (["slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-05T10:00:00 DUE TO PREEMPTION ***"], "preempted"),
        (["sbatch: error: Batch job submission failed: Invalid partition name specified"], "launch_failed"),
        (["slurmstepd: error: pyxis: printing enroot log file:", "slurmstepd: error: pyxis:     /etc/enroot/hooks.d/"
          "9-x.sh: line 7: 12 Segmentation fault      | x", "slurmstepd: error: pyxis: couldn't start container"],
         "launch_failed"),
        (["slurmstepd: error: pyxis: failed to import docker image", "slurmstepd: error: pyxis:     [ERROR] URL https:"
          "//r.io/x returned error code: 401", "slurmstepd: error: pyxis: couldn't start container"], "image_missing"),
        (["bash: line 7: 4711 Killed                  python train.py", "slurmstepd: error: Detected 1 oom_kill event "
          "in StepId=7.0."], "host_oom"),
        (["[rank3]:[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum"
          "=7)", "srun: error: n1: task 3: Aborted (core dumped)"], "nccl_timeout"),
        ([SEGFAULT, *frames(2), REMOTE, "ncclRemoteError: A call failed possibly due to a network error"], "segfault"),
        ([*frames(2), REMOTE, SEGFAULT], "segfault"),
        ([*frames(2), REMOTE, "srun: error: n1: task 3: Exited with exit code 1", *frames(1), "EOFError"],
         "nccl_error"),
        (["/opt/pytorch/Loss.cu:240: nll_loss: block: [0,0,0], thread: [17,0,0] Assertion `t >= 0` failed."],
         "cuda_error"),
        (["  State:          Terminated", "    Reason:       OOMKilled", "    Exit Code:    137"], "host_oom"),
        (["submitit WARNING (2026-01-05) - Caught signal SIGUSR2 on n1: this job is preempted."], "preempted"),
        (["Memory access fault by GPU node-2 (Agent handle: 0x5581f2) on address 0x7f."], "cuda_error"),
        (["/usr/bin/python3: can't open file '/work/x.py': [Errno 2] No such file or directory"], "missing_file"),
        (["[2026-01-05] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with return code = -9"], "rank_crash"),
    ],
)  # fmt: skip
def test_endings_without_a_traceback(tmp_path: Path, lines: list[str], kind: str) -> None:
    found = summary(tmp_path, [*STEPS, *lines])
    assert found.fatal is not None
    assert found.fatal.kind == kind
    assert {each.kind for each in found.problems} <= {kind, "early_end", "truncated_file"}


def test_of_many_problems_the_first_and_the_last_are_recorded(tmp_path: Path) -> None:
    """A warning that comes back with every step does not hide the crash after it."""
    step = STEPS[0].replace("       1/", "{:8d}/").replace("/      50", "/     500")
    caught = [*frames(1), "ValueError: caught"]
    lines = [line for n in range(1, 101) for line in (step.format(n), *caught)]
    found = summary(tmp_path, [*lines, step.format(101), *frames(1), "KeyError: 'last'", *AFTER[1]])
    assert found.fatal is not None
    assert (found.fatal.kind, found.fatal.detail) == ("rank_crash", "KeyError: 'last'")


FREED = [
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "OSError: [Errno 28] No space left on device: '/x'",
    "MemoryError",
]


@pytest.mark.parametrize("words", FREED)
@pytest.mark.parametrize("planned", [5, 50])
def test_what_ran_out_before_all_the_work_was_done_ended_nothing(tmp_path: Path, words: str, planned: int) -> None:
    steps = [step.replace("/      50", f"/      {planned}") for step in STEPS]
    (tmp_path / "x.log").write_text("\n".join([*steps[:2], words, *steps[2:], ""]))
    found = summarise(parse_log(tmp_path / "x.log"))
    assert (found.fatal is None) is (planned == 5)
