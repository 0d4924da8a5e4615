"""Real logs, damaged the ways logs are damaged: the same values, or fewer, never another number."""

import lzma
import random
import re
from pathlib import Path
from typing import Any

import pytest
from selection import pairs

from benchrun.frameworks.logs import parse_log
from benchrun.logs.records import Log
from benchrun.measure.summary import summarise
from tests.parse.test_dialects import MEGATRON_OPEN

LOGS = Path(__file__).parent.parent / "logs"
FILES = [
    "01-megatron-lm-2021-fp16-16gpu",
    "06-megatron-core-2026-srun-label-1gpu",
    "10-megatron-deepspeed-2026-ansi-8gpu",
    "11-nemo1-mlperf-gpt3-512gpu",
    "12-nemo2-embedding-100it",
    "14-nemo2-resiliency-crash-restart",
    "15-megatron-bridge-gb300-steptime",
    "18-torchtitan-ansi-1gpu-2500it",
    "21-torchtitan-resume-4801",
    "22-maxtext-demo-tpu-v5p-10it",
    "23-hf-trainer-msswift-30it",
]
STEP_LINE = re.compile(
    rb"elapsed time per iteration|train_step_timing|Step Time :|completed step:|tps: |'loss':|global_step/max_steps"
)
EACH = pytest.mark.parametrize("file", FILES, ids=[file[:2] for file in FILES])


def original(file: str) -> bytes:
    return lzma.decompress((LOGS / f"{file}.log.xz").read_bytes())


def parse(tmp_path: Path, data: bytes) -> Log:
    path = tmp_path / "damaged.log"
    path.write_bytes(data)
    return parse_log(path)


def values(log: Log) -> dict[Any, Any]:
    return {row.step: (row.step_time_s, row.tokens_per_s_per_gpu) for row in log.distinct}


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) if b"\r" not in data else [line + b"\n" for line in data.split(b"\n")[:-1]]


SAME = {
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "nul": lambda data: data.replace(b"\n", b"\n\x00\x00"),
    "colours": lambda data: data.replace(b" | ", b" |\x1b[32m "),
    "prefixes": lambda data: b"".join(b"[rank3]: 12: " + line for line in lines_of(data)),
    "not-utf8": lambda data: data.replace(b"\n", b"\n\xff\xfe\xc3 not text | iteration of what? \n"),
    "validation": lambda data: data.replace(b"\n", b"\n validation loss at iteration 100 | lm loss value: 4.8 |\n"),
    "long-line": lambda data: b"x" * 10_000_000 + b"\n" + data,
    "other-ranks": lambda data: b"".join(
        line + b"[rank9]: W0101 x.py:1] a warning about step 3\n" for line in lines_of(data)
    ),
    "twice-each": lambda data: b"".join(line + line for line in lines_of(data)),
}


@pytest.mark.parametrize(("file", "change"), pairs(FILES, SAME))
def test_noise_changes_nothing(tmp_path: Path, file: str, change: str) -> None:
    if (file[:2], change) == ("15", "twice-each"):
        pytest.skip("lines without a step number cannot be told from the next step's")
    data = original(file)
    assert values(parse(tmp_path, SAME[change](data))) == values(parse(tmp_path, data))


@pytest.mark.parametrize(("file", "keep"), pairs(FILES, [0.55, 0.7, 0.83, 0.97]))
def test_a_cut_log_gives_only_whole_rows(tmp_path: Path, file: str, keep: float) -> None:
    data = original(file)
    whole, cut = values(parse(tmp_path, data)), parse(tmp_path, data[: int(len(data) * keep)])
    if file.startswith(("14", "22")):  # a restart: what came before it is the truth of the shorter log
        whole = {row.step: None for row in parse(tmp_path, data).steps}
        assert values(cut).keys() <= whole.keys()
    else:
        assert values(cut).items() <= whole.items()


@EACH
def test_a_log_without_its_end_is_not_complete(tmp_path: Path, file: str) -> None:
    data = original(file)
    lines = lines_of(data)
    steps = [index for index, line in enumerate(lines) if STEP_LINE.search(line)]
    cut = parse(tmp_path, b"".join(lines[: steps[len(steps) * 2 // 3]]))
    if not file.startswith("23"):  # there one line holds many steps
        assert len(cut.distinct) < len(parse(tmp_path, data).distinct) or file.startswith(("14", "22"))
    assert not summarise(cut).complete


@pytest.mark.parametrize(("file", "seed"), pairs(FILES, [1, 2, 3]))
def test_dropped_lines_lose_rows_and_change_none(tmp_path: Path, file: str, seed: int) -> None:
    data = original(file)
    rng = random.Random(seed)
    kept = [line for line in lines_of(data) if not STEP_LINE.search(line) or rng.random() > 0.2]
    whole, fewer = parse(tmp_path, data), parse(tmp_path, b"".join(kept))
    if file.startswith(("15", "23")):
        # Rows without a number are counted, and differences of a clock span what is missing: a mean still holds.
        assert len(fewer.distinct) <= len(whole.distinct)
        return
    every = {(row.step, row.step_time_s, row.tokens_per_s_per_gpu) for row in whole.steps}
    for row in fewer.distinct:
        rate = row.tokens_per_s_per_gpu if file.startswith(("18", "21", "22")) else None
        known = [entry for entry in every if entry[:2] == (row.step, row.step_time_s)]
        assert known
        assert rate is None or rate in {entry[2] for entry in known}


@EACH
def test_a_restart_that_repeats_steps_keeps_the_last_rows(tmp_path: Path, file: str) -> None:
    """The log again after itself, as a requeued job appends it."""
    data = original(file)
    once, twice = parse(tmp_path, data), parse(tmp_path, data + data)
    assert values(twice) == values(once)
    assert twice.segments >= once.segments


@pytest.mark.parametrize(("file", "seed"), pairs(FILES, [1, 2]))
def test_lines_of_other_ranks_in_between(tmp_path: Path, file: str, seed: int) -> None:
    """A second rank's copy of the log, interleaved line by line in its own pace."""
    data = original(file)
    first = [line for line in lines_of(data) if STEP_LINE.search(line)]
    chatter = [line for line in lines_of(data) if not STEP_LINE.search(line)]
    rng = random.Random(seed)
    mixed, others = [], iter(chatter * 3)
    for line in first:
        mixed += [b"7: " + next(others, b"\n") for _ in range(rng.randrange(4))]
        mixed.append(line)
    assert values(parse(tmp_path, b"".join(mixed))).keys() == values(parse(tmp_path, b"".join(first))).keys()


def test_an_open_last_value_is_read_in_every_line_and_never_half(tmp_path: Path) -> None:
    lines = [MEGATRON_OPEN.replace(" 7/", f" {n}/").replace("7.500000E+00", f"{n / 10:.6E}") for n in range(10, 90)]
    lines[50] = lines[50].replace("E+00", "E+0")  # cut, and closed by another rank's line
    losses = [row.loss for row in parse(tmp_path, "\n".join([*lines, ""]).encode()).steps]
    assert losses == [None if step == 60 else pytest.approx(step / 10) for step in range(10, 90)]
