"""Whatever the bytes, however they come: an answer that is JSON, and always the same one.

A short pass of the same numbers every time; tests/bench/fuzz.py searches for hours.
"""

import json
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS, Reader, parse_log
from benchrun.logs import forms, reader
from benchrun.logs.inputs import COMPRESSED
from benchrun.logs.records import Log
from benchrun.measure.summary import summarise
from tests.parse.test_dialects import LINES

QUICK = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
ALWAYS = 1 << 30
REAL = [line.encode() for name in LINES for line in LINES[name][0].split("\n")]
BESIDE = [
    b"{'train_runtime': 425.4, 'train_steps_per_second': 0.235, 'epoch': 1.0}",
    b"100%|##########| 3/3 [00:51<00:00, 17.00s/it]",
    b"  Total optimization steps = 6",
    b"0:   seq_length ...................................... 4096",
    b"GLOBAL_RANK: 0, MEMBER: 1/8",
    b':::MLLOG {"key": "init_start", "value": null}',
    b"[titan] - root - INFO - Training starts at step 1, with local batch size 8, global batch size 64, sequence length"
    b" 8192, total steps 100 (warmup 10)",
    b"Starting training loop at iteration 20",
    b"I0706 programs.py:515] steps/sec: 0.271739",
    b"I0706 summary_utils.py:640] Metrics values at step 100:",
    b'benchrun config: {"seq_length": 64, "versions": {"megatron-core": "0.16.1"}, "model": {"num_layers": 2}}',
    b"Config param steps: 30",
    b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    b"Traceback (most recent call last):",
    b"",
]
NUMBERS = [
    *(b"0", b"-1", b"-0.5", b"1e400", b"-1e400", b"1e-320", b"1.7e308", b"nan", b"inf", b"-inf", b"", b"1,000", b"5K"),
    *(b"1" + b"0" * 30, b"9" * 15, b"2147483648", b"1_000", b"0x10", "٣".encode(), "²".encode(), b"1.2.3"),
]
PIECES = [b"\r", b"\r\n", b"\n", b"\x00", b"\x1b[32m", b"\xff\xfe", b"\xe2\x96", b" | ", b"[rank3]: ", b"}", b"]", b"{"]
ENDINGS = [b"\n", b"\n", b"\n", b"\r\n", b"\r", b" "]
A_NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@st.composite
def damaged(draw: Any) -> Any:
    """Real lines of any frameworks, and what a disk, a terminal and other ranks can do to them."""
    lines = draw(st.lists(st.sampled_from(REAL) | st.sampled_from(BESIDE), min_size=1, max_size=8))
    for _ in range(draw(st.integers(0, 3))):
        change, at = draw(st.sampled_from(["delete", "repeat", "swap", "cut"])), draw(st.integers(0, len(lines) - 1))
        if change == "delete" and len(lines) > 1:
            del lines[at]
        elif change == "repeat":
            lines.append(lines[at])
        elif change == "swap":
            lines[0], lines[at] = lines[at], lines[0]
        elif change == "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
    data = b"".join(line + draw(st.sampled_from(ENDINGS)) for line in lines)
    for _ in range(draw(st.integers(0, 3))):
        numbers = list(A_NUMBER.finditer(data))
        if numbers and draw(st.booleans()):
            start, end = draw(st.sampled_from(numbers)).span()
            new = draw(st.sampled_from(NUMBERS))
        else:
            start = end = draw(st.integers(0, len(data)))
            new = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
        data = data[:start] + new + data[end:]
    return data


TIME = "elapsed time per iteration (ms)"
FIELDS = [
    *("consumed samples", "throughput per GPU (TFLOP/s/GPU)", "global batch size", "loss", "lm loss", "grad norm"),
    *("number of skipped iterations", "number of nan iterations", "tokens-per-second-per-gpu", TIME),
    "elapsed time per iteration (s)",
]
ODD = [
    *("0", "-0", "-1", "+1", "1_0", "1e3", "1.0", "0x1", "1e400", "1e-320", "nan", "-inf", "65536", "2147483648"),
    *("9" * 16, "", "x", "٣", "7/8", "7/nan", "1|2", "\n5", "1\r", "1\x00", "\x1b[32m1", "1 lm loss: 3"),
]


@st.composite
def megatron_logs(draw: Any) -> Any:
    """A Megatron log of several runs, with gaps, other ranks' lines, and lines that are not like the others."""
    lines, step = [], 0
    for _ in range(draw(st.integers(1, 4))):
        fields = draw(st.lists(st.sampled_from(FIELDS), max_size=6))
        step = draw(st.sampled_from([step, step, max(step - 3, 0), 0, 10**14]))
        for _ in range(draw(st.integers(2, 12))):
            step += draw(st.sampled_from([1, 1, 1, 1, 2, 10, 0]))
            odd = draw(st.integers(0, 5)) == 0
            values = {draw(st.sampled_from(FIELDS)): draw(st.sampled_from(ODD))} if odd else {}
            change = draw(st.sampled_from(CHANGES)) if odd else bytes
            lines.append(change(iteration(step, [TIME, *fields], values)))
    return b"".join(lines).replace(b"\n", draw(st.sampled_from([b"\n", b"\n", b"\r\n"])))


def iteration(step: int, fields: list[str], odd: dict[str, Any]) -> bytes:
    """A step line with these fields; ``odd``: values that are not as usual."""
    return f" iteration {step:8d}/     500 |{''.join(f' {name}: {odd.get(name, 64)} |' for name in fields)}\n".encode()


A_FRACTION = re.compile(rb"(?<=\d\.)\d+")
STEP = {
    **dict.fromkeys((name for name in LINES if name.startswith("megatron")), rb"(iteration=? +)\d+"),
    "bridge": rb"(Step Time : )\d+",
    "nemo2": rb"(global_step: )\d+",
    **dict.fromkeys(("titan", "titan-2024"), rb"(step: )\d+"),
    **dict.fromkeys(("maxtext", "maxtext-2024"), rb"(completed step: )\d+"),
    "paxml": rb"(step = )\d+",
    "nanotron": rb"(iteration: )\d+",
    "ms-swift": rb"(max_steps': ')\d+",
    "deepspeed-pipe": rb"(steps: )\d+",
    "deepspeed-timer": rb"(global_step=)\d+",
}
"""Where the number of a step stands in the lines that are one step each."""
CHANGES = [
    bytes,
    lambda line: b"[rank1]: a warning\n" + line,
    lambda line: b"[rank1]: a warning" + line,
    lambda line: b" validation loss | elapsed time per iteration (ms): 5 |\n" + line,
    lambda line: line[:-1],
    lambda line: line[:-1] + b" \n",
    lambda line: line[: len(line) // 2] + b"\n",
    lambda line: line[: len(line) // 2] + b"\n" + line[len(line) // 2 :],
    lambda line: line.replace(b"| ", b"|\n", 2),
    lambda line: line.replace(b"iteration  ", b"iteration |", 1),
    lambda line: line.replace(b"     500", b"infinity"),
    lambda line: line.replace(b"     500", b"600"),
]


def read(*chunks: bytes, framework: str | None = None, asked: bool = False) -> Log:
    """The log of a file that comes in ``chunks``; ``asked``: somebody looks at it after each."""
    reading = Reader(framework)
    for chunk in chunks:
        reading.feed(chunk)
        if asked:
            reading.log("x")
    reading.end()
    return reading.log("x")


def told(log: Log) -> str:
    """All that a log says, as text: a NaN equals itself there."""
    return repr((log.framework, list(log.steps), log.segments, vars(log.facts), log.problems, log.only_average))


def document(log: Log) -> str:
    return json.dumps(summarise(log).model_dump(mode="json"), allow_nan=False)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "x.log"


@QUICK
@given(start=st.sampled_from([b"", *COMPRESSED]), data=st.binary(max_size=500))
def test_any_bytes_are_a_log_or_the_users_mistake(file: Path, start: Any, data: Any) -> None:
    file.write_bytes(start + data)
    try:
        log = parse_log(file)
    except UserError:
        assert start
    else:
        assert document(log)


@QUICK
@given(data=damaged(), framework=st.none() | st.sampled_from(sorted(DIALECTS)))
@example(data=b"{'loss': 1.0, 'current_steps': 999999999999, 'elapsed_time': '10s'}\n", framework=None)
@example(data=b"{'train_runtime': 1e300, 'train_steps_per_second': 1e300}\n", framework=None)
@example(data=b"Epoch 999999999: 9%|#| 5/999999999999999 [00:10<00:10, train_step_timing in s=1.0]\n", framework=None)
@example(data=b"Epoch 0: 5/10 [" + b"1" * 2000 + b" train_step_timing in s=1\n", framework=None)
@example(data=b"Epoch 0:" + b" " * 30_000 + b" train_step_timing in s=1\n", framework=None)
@example(data=b"a" * 39_000 + b" ...........\n", framework=None)
@example(data=b"a" * 39_000 + b" Segmentation fault\n", framework=None)
@example(data=b"step = 100, loss= 5.1, steps/sec 0." + b"0" * 320 + b"1\n", framework=None)
def test_damaged_lines_give_a_document_without_nan(data: Any, framework: Any) -> None:
    assert document(read(data, framework=framework))


def planned(step: int, steps: int) -> bytes:
    return b" iteration %d/ %d | elapsed time per iteration (ms): 1234.5 | lm loss: 7.5E+00 |\n" % (step, steps)


@QUICK
@given(data=damaged(), places=st.lists(st.integers(0, 2000), max_size=12))
@example(data=2 * planned(7, 100) + planned(126, 5000) + planned(7, 100), places=[len(planned(7, 100))])
def test_how_the_bytes_come_changes_nothing(data: Any, places: Any) -> None:
    whole = told(read(data))
    edges = [0, *sorted(places), len(data)]
    assert told(read(*(data[start:end] for start, end in pairwise(edges)))) == whole
    assert told(read(*data.splitlines(keepends=True))) == whole
    assert told(read(*(data[at : at + 1] for at in range(len(data))))) == whole


@QUICK
@given(data=damaged())
def test_looking_at_a_growing_log_changes_nothing(data: Any) -> None:
    assert told(read(*data.splitlines(keepends=True), asked=True)) == told(read(data))


@settings(QUICK, max_examples=50)
@given(data=megatron_logs(), size=st.integers(1, 4))
def test_a_block_at_once_says_what_its_lines_say(data: Any, size: Any) -> None:
    lines = data.splitlines(keepends=True)
    same_at_once(*(b"".join(lines[at : at + size]) for at in range(0, len(lines), size)))


@pytest.mark.parametrize("field", FIELDS)
def test_an_odd_value_in_a_block_is_what_it_is_in_a_line(field: str) -> None:
    lines = [iteration(step, [TIME, "lm loss", field], {}) for step in range(1, 6)]
    for value in ODD:
        odd = iteration(6, [TIME, "lm loss", field], {field: value})
        same_at_once(*lines[:3], b"".join((lines[3], lines[4], odd)))


def same_at_once(*blocks: bytes) -> None:
    with patch.object(reader, "DENSE", ALWAYS), patch.object(forms, "MOST_ODD", 1.0):
        at_once = told(read(*blocks))
    with patch.object(reader, "DENSE", 0):
        assert at_once == told(read(*blocks))


@pytest.mark.parametrize("name", STEP)
def test_blocks_of_any_dialect_are_read_at_once(name: str) -> None:
    """With other numbers in every line, and then with damaged lines among them."""
    text = LINES[name][0].encode()
    first = text.split(b"\n")[-1].partition(b"s/it]")[2] or text.split(b"\n")[-1]
    chance, original, took = Random(1), DIALECTS[LINES[name][1]].take, []

    def line(number: Any) -> Any:
        other = A_FRACTION.sub(lambda digits: b"%0*d" % (len(digits[0]), chance.randrange(10 ** len(digits[0]))), first)
        return re.sub(STEP[name], rb"\g<1>%d" % (95 + number), other) + b"\n"

    def noted(*arguments: Any) -> Any:
        took.append(original(*arguments))
        return took[-1]

    lines = [text + b"\n", *map(line, range(60))]
    with patch.object(DIALECTS[LINES[name][1]], "take", noted):
        same_at_once(*(b"".join(lines[at : at + 20]) for at in range(0, 60, 20)))
    assert len(took) >= 2
    assert all(took)
    lines[30], lines[50] = lines[30][: len(first) // 2] + b"\n", b"beside\n" + lines[50][:-1] + b" nan\n"
    same_at_once(*(b"".join(lines[at : at + 20]) for at in range(0, 60, 20)))


def test_a_dictionary_is_compared_with_the_line_before_it_however_that_was_read() -> None:
    form = "{'loss': '2.5', 'epoch': '0.5', 'learning_rate': '1e-05', 'global_step/max_steps': '%d/99'}\n"
    lines = [(form % step).encode() for step in (*range(1, 20), 10)]
    assert [row.step for row in read(*lines).steps][-2:] == [19, 10]
    same_at_once(b"".join(lines[:10]), b"".join(lines[10:]))
