"""An exception is the cause behind any prefix: of launchers, containers, loggers, or several."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import parse_log
from benchrun.logs.prefixes import is_warning
from benchrun.measure.model import ProblemEntry
from benchrun.measure.summary import summarise

TRANSPORTS = [
    "",
    "inference_engine  | ",
    "vllm-1 | ",
    "2024-05-01T08:45:{s:02}.67017{s} ",
    "2024-05-01T08:45:{s:02}.67017{s}Z ",
    "2024-05-01T08:45:{s:02}.67017{s}Z stderr F ",
    "Jan 05 10:00:{s:02} gpu-7 python3[4711]: ",
    "[1,3]<stderr>:",
    "3: ",
    "12: ",
    "[default3]:",
    "gpu-3: ",
    "[pod/train-0/main] ",
    "(head, rank=0, pid=812) ",
]
RANKS = [
    "",
    "[rank3]: ",
    "[rank3]:",
    "(Worker pid=7) ",
    "(WorkerDict pid=7, ip=10.0.0.2) ",
    "(EngineCore_DP0 pid=196) ",
]
LOGGERS = [
    "",
    "ERROR 10-17 16:33:{s:02} [executor.py:623] ",
    "ERROR 05-01 08:45:{s:02} async_llm_engine.py:43] ",
    "2024-02-08 09:56:{s:02} | ERROR | stderr | ",
    "2026-01-05 10:00:{s:02},12{s} - root - ERROR - ",
    "2026-01-05 10:00:{s:02}.123 | ERROR    | train:main:7 - ",
    "[2025-02-12 12:54:{s:02} TP0] ",
    "[2026-01-05 10:00:{s:02},123][root][ERROR] - ",
    "ERROR:root:",
    "E0105 10:00:{s:02}.1 7 x/launcher.py:12] ",
    "E 01-05 10:00:{s:02} x.py:12] ",
    "2026-01-05 10:00:{s:02}.123456: E tensorflow/x.cc:12] ",
    "2026-01-05 10:00:{s:02} UTC [7] ERROR: ",
    "[NeMo E 2026-01-05 10:00:{s:02} train:12] ",
    "[{s:02}.370 s] ",
]
WORDS = ["", "Scheduler hit an exception: ", "EngineCore encountered a fatal error. ", "Error in worker 3: "]
LAST_LINES = {
    "missing_module": "ModuleNotFoundError: No module named 'datasets'",
    "missing_file": "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.json'",
    "cuda_oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "rank_crash": "pkg.errors.ConfigError: at 10:00:00 the section [data] was missing",
}
BLOCK = [
    "Traceback (most recent call last):",
    '  File "/opt/a.py", line 7, in run',
    "    return self.read(path)",
    "           ^^^^^^^^^^^^^^^",
    '  File "/opt/b.py", line 12, in read',
    "    raise error",
]
KINDS = st.sampled_from(sorted(LAST_LINES))
PREFIXES = st.tuples(st.sampled_from(TRANSPORTS), st.sampled_from(RANKS), st.sampled_from(LOGGERS)).map("".join)
EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fatal(tmp_path: Path, lines: Sequence[str]) -> ProblemEntry | None:
    path = tmp_path / "x.log"
    path.write_text("\n".join(lines) + "\n")
    return summarise(parse_log(path)).fatal


def behind(prefix: str, lines: Sequence[str]) -> list[str]:
    """The lines, each behind the prefix with its own clock."""
    return [prefix.format(s=second) + line for second, line in enumerate(lines, 8)]


def assert_cause(found: ProblemEntry | None, kind: str, line: int) -> None:
    assert found is not None
    assert (found.kind, found.line) == (kind, line)
    assert LAST_LINES[kind] in found.detail


@EXAMPLES
@given(prefix=PREFIXES, words=st.sampled_from(WORDS), kind=KINDS, follows=st.booleans())
def test_a_traceback_behind_a_prefix_gives_its_exception(
    tmp_path: Path, prefix: str, words: str, kind: str, follows: bool
) -> None:
    header, *rest = BLOCK
    block = behind(prefix, ["Started", words + header, *rest, LAST_LINES[kind]])
    after = ["srun: error: n1: task 0: Exited with exit code 1"] if follows else []
    assert_cause(fatal(tmp_path, [*block, *after]), kind, len(block))


@EXAMPLES
@given(prefix=PREFIXES, kind=KINDS, header=st.booleans())
def test_an_exception_behind_a_prefix_needs_no_header(tmp_path: Path, prefix: str, kind: str, header: bool) -> None:
    block = behind(prefix, [*(BLOCK[1:] if header else []), LAST_LINES[kind]])
    assert_cause(fatal(tmp_path, ["Started", *block]), kind, len(block) + 1)


@EXAMPLES
@given(transport=st.sampled_from(TRANSPORTS), logger=st.sampled_from(LOGGERS), kind=KINDS)
def test_a_logger_may_label_the_header_alone(tmp_path: Path, transport: str, logger: str, kind: str) -> None:
    header = behind(transport + logger, ["the engine failed: " + BLOCK[0]])
    block = [*header, *behind(transport, [*BLOCK[1:], LAST_LINES[kind]])]
    assert_cause(fatal(tmp_path, block), kind, len(block))


RANKED = [
    "{r}: ",
    "[rank{r}]: ",
    "[1,{r}]<stderr>:",
    "[pod/train-{r}/main] ",
    "2026-01-05T10:00:{s:02}.12{s}Z [default{r}]:",
    "vllm-1  | (Worker pid={r}) ERROR 10-17 16:33:{s:02} [executor.py:623] ",
    "[2026-01-05 10:00:{s:02} TP{r}] ",
]


@EXAMPLES
@given(prefix=st.sampled_from(RANKED), order=st.permutations([0, 1, 2] * 7), kind=KINDS)
def test_ranks_are_told_apart_by_the_numbers_in_their_prefixes(
    tmp_path: Path, prefix: str, order: list[int], kind: str
) -> None:
    blocks = [[*BLOCK, LAST_LINES[kind]] for _ in range(3)]
    lines = [prefix.format(r=rank, s=second) + blocks[rank].pop(0) for second, rank in enumerate(order)]
    began_first = max(number for number, rank in enumerate(order, 1) if rank == order[0])
    assert_cause(fatal(tmp_path, lines), kind, began_first)


@EXAMPLES
@given(prefix=PREFIXES, notice=st.sampled_from(["WARNING: ", "UserWarning: ", "[WARNING] ", "INFO: "]))
def test_a_warning_that_names_an_exception_ends_nothing(tmp_path: Path, prefix: str, notice: str) -> None:
    if "ERROR" in prefix or "E 2026" in prefix or "E0105" in prefix:
        prefix = ""
    assert fatal(tmp_path, behind(prefix, [f"{notice}KeyError: 'x' was ignored"])) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("WARNING 07-16 22:59:22 _custom_ops.py:14] Failed to import", True),
        ("vllm-1  | (Worker pid=7) WARNING 07-16 22:59:22 [x.py:14] Failed", True),
        ("[2026-01-05 10:00:00,123][WARNING] slow", True),
        ("W0105 10:00:00.1 7 x.py:12] slow", True),
        ("ERROR 07-16 22:59:22 x.py:14] WARNING is not its level", False),
        ("n1:1:2 [0] NCCL WARN Cuda failure", False),
        ("KeyError: 'x'", False),
    ],
)
def test_the_level_of_a_line(line: str, expected: bool) -> None:
    assert is_warning(line) is expected


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("margin", ["", "  ", "        "])
def test_a_traceback_may_be_indented_as_a_whole(tmp_path: Path, margin: str, header: bool) -> None:
    lines = ["Traceback (most recent call last):", '  File "/x/train.py", line 3, in step', "    work()"]
    lines = [*lines[not header :], "torch.AcceleratorError: CUDA error: device-side assert triggered"]
    found = fatal(tmp_path, [margin + line for line in lines])
    assert found is not None
    assert (found.kind, found.line) == ("cuda_error", len(lines))


@pytest.mark.parametrize(
    "line",
    [
        "n1:1642598:1642688 [3] NCCL INFO [Service thread] Connection closed by localRank 3",
        "[2026-01-05 10:00:00,109] torch.distributed.elastic.rendezvous.dynamic_rendezvous: [WARNING] The node"
        " 'n1_988551_0' has failed to shutdown the rendezvous '15212' due to an error of type"
        " RendezvousConnectionError.",
        "run.sh: line 160: 138253 Killed                  ( while true; do sleep 5; done )",
    ],
)
def test_what_sound_jobs_print_at_their_end_is_no_cause(tmp_path: Path, line: str) -> None:
    assert fatal(tmp_path, [line]) is None
