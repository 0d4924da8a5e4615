"""Where a log comes from, and in what shape: files, many files, directories, stdin, compressed, growing, broken."""

import errno
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from selection import some

from benchrun.errors import UserError
from benchrun.frameworks.logs import Tail, parse_log
from benchrun.logs.inputs import logs_in
from benchrun.logs.records import Log
from benchrun.measure.summary import summarise


def line(step: int, ms: float = 1000.0, *, planned: Any = 20, loss: float = 2.0) -> str:
    return (
        f" iteration {step:8d}/{planned:8d} | elapsed time per iteration (ms): {ms:.1f} |"
        f" global batch size:    64 | lm loss: {loss:.6E} |\n"
    )


def text(*steps: int, **options: float) -> str:
    return "".join(line(step, 1000.0 + step, **options) for step in steps)


def values(log: Log) -> list[tuple[int, float]]:
    return [(row.step, row.step_time_s) for row in log.distinct]


EXPECTED = [(step, 1 + step / 1000) for step in range(1, 21)]


@pytest.mark.parametrize(
    "pack",
    [lambda data: data, gzip.compress, lzma.compress, zstandard.compress, lambda data: gzip.compress(data) * 1],
    ids=["plain", "gzip", "xz", "zstd", "gzip-again"],
)
def test_compressed_or_not_whatever_its_name(tmp_path: Path, pack: Callable[..., Any]) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(pack(text(*range(1, 21)).encode()))
    assert values(parse_log(path)) == EXPECTED


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["mark", "no-mark"])
def test_utf_16(tmp_path: Path, order: str, mark: str, pack: Callable[..., bytes]) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(pack(f"{mark}{text(*range(1, 21))}loss: \N{GREEK SMALL LETTER MU}".encode(f"utf-16-{order}")[:-1]))
    assert values(parse_log(path)) == EXPECTED


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xff\xfe\x00junk\n"])
def test_a_mark_before_text_that_is_no_utf_16(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(mark + text(*range(1, 21)).encode())
    assert values(parse_log(path)) == EXPECTED


@pytest.mark.parametrize("before", [b"\x00" * 4097, b"a\x00", b"\x00", b"\x00" * 255 + b"a"])
def test_zeros_before_a_log_are_no_utf_16(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(before + text(*range(1, 21)).encode())
    assert values(parse_log(path)) == EXPECTED


def test_colours_inside_the_words_of_a_step_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    coloured = text(*range(1, 21)).replace("elapsed time", "\x1b[01;31m\x1b[Kelapsed time\x1b[m\x1b[K")
    path.write_text(coloured)
    assert values(parse_log(path)) == EXPECTED


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text(*range(1, 21)).encode())))

    log = parse_log(Path("-"))
    assert (values(log), log.file) == (EXPECTED, "stdin")


def test_a_log_in_a_directory_that_may_not_be_looked_at_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("good.log", "closed.log"):
        (tmp_path / name).write_text(text(*range(1, 21)))
    looked_at = Path.is_file

    def is_file(path: Path) -> bool:  # the tests may run as root, whom no permission stops
        if path.name == "closed.log":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return looked_at(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    with pytest.raises(UserError) as error:
        logs_in([tmp_path])
    assert error.value.where == str(tmp_path / "closed.log")


def test_a_directory_is_its_logs_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "node0" / "deep").mkdir(parents=True)
    (tmp_path / "node0" / "deep" / "0.out").write_text(text(*range(1, 11)))
    (tmp_path / "node1.log.gz").write_bytes(gzip.compress(text(*range(11, 21)).encode()))
    (tmp_path / "weights.bin").write_text(text(99))
    (tmp_path / "run.json").write_text(text(98))
    assert values(parse_log(tmp_path)) == EXPECTED


def test_ranks_that_print_the_same_steps_are_one_run(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"{rank}.log").write_text(text(*range(1, 21)))
    log = parse_log(*sorted(tmp_path.iterdir()))
    assert (values(log), log.segments) == (EXPECTED, 1)


def test_the_arguments_of_rank_0_and_the_steps_of_the_last_rank(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("  seq_length ...................................... 8192\n")
    (tmp_path / "7.log").write_text(text(*range(1, 21)))
    for order in (("0", "7"), ("7", "0")):
        log = parse_log(*(tmp_path / f"{name}.log" for name in order))
        assert (values(log), log.facts.seq_length) == (EXPECTED, 8192)


def test_one_log_after_the_other(tmp_path: Path) -> None:
    """A requeued job: the second file repeats some steps, and they are the work that was kept."""
    (tmp_path / "1.log").write_text(text(*range(1, 13), loss=9.0))
    (tmp_path / "2.log").write_text(text(*range(9, 21), loss=2.0))
    log = parse_log(tmp_path / "1.log", tmp_path / "2.log")
    assert values(log) == EXPECTED
    assert [row.loss for row in log.distinct] == [9.0] * 8 + [2.0] * 12


def test_bars_on_stderr_time_the_dictionaries_on_stdout(tmp_path: Path) -> None:
    bars = "".join(f"\r {n:3d}%|#  | {n}/10 [{n // 2:02d}:{n % 2 * 30:02d}<05:00, 30.0s/it]" for n in range(11))
    rows = "".join(f"{{'loss': {9 - n / 10}, 'learning_rate': 1e-05, 'epoch': {n / 10}}}\n" for n in range(1, 11))
    (tmp_path / "err.log").write_text(bars + "\n")
    (tmp_path / "out.log").write_text(rows)
    for order in (("err", "out"), ("out", "err")):
        summary = summarise(parse_log(*(tmp_path / f"{name}.log" for name in order)))
        assert (summary.num_steps, summary.step_time_s.median) == (10, 30.0)


def test_problems_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_text(text(*range(1, 21)))
    (tmp_path / "err.log").write_text("one\n[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n")
    (problem,) = parse_log(tmp_path / "out.log", tmp_path / "err.log").problems
    assert (problem.kind, problem.source, problem.line, problem.rank) == ("cuda_oom", "err.log", 2, 3)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n\n",
        b"\x00" * 1000,
        b"\xff\xfe" * 1000,
        b"no newline",
        b"\r\r\r",
        b"\x1f\x8b"[:1],
        os.urandom(100_000),
    ],
    ids=["empty", "newlines", "nul", "not-utf8", "no-newline", "returns", "one-byte", "random"],
)
def test_what_holds_no_step_gives_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    summary = summarise(parse_log(path))
    assert (summary.num_steps, summary.step_time_s, summary.complete) == (0, None, None)


def test_a_line_of_100_mb_neither_hides_nor_makes_steps(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("w") as file:
        file.write(text(*range(1, 11)))
        for _ in range(100):
            file.write("x" * 1_000_000)
        file.write("\n" + text(*range(11, 21)))
    assert values(parse_log(path)) == EXPECTED


@pytest.mark.parametrize(
    "pack", some([gzip.compress, lzma.compress, zstandard.compress], 1), ids=["gzip", "xz", "zstd"]
)
def test_a_compressed_log_that_was_cut_gives_what_there_is_and_says_so(
    tmp_path: Path, pack: Callable[..., Any]
) -> None:
    noise = "".join(f"{n * 7919 % 104729:x} chatter {n * n % 999331:x}\n" for n in range(200_000))
    packed = pack((text(*range(1, 11)) + noise + text(*range(11, 21))).encode())
    path = tmp_path / "x.log"
    path.write_bytes(packed[: len(packed) // 2])
    log = parse_log(path)
    assert values(log) == EXPECTED[:10]
    assert {problem.kind for problem in log.problems} == {"truncated_file", "early_end"}


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.compress])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_a_short_log_that_was_cut_gives_its_first_steps(tmp_path: Path, pack: Callable[..., Any], share: float) -> None:
    noise = os.urandom(3000).hex()
    steps = [f"{noise[100 * step : 100 * step + 100]}\n{line(step, 1000.0 + step)}" for step in range(1, 21)]
    packed = pack("".join(steps).encode())
    path = tmp_path / "x.log"
    path.write_bytes(packed[: int(share * len(packed))])
    log = parse_log(path)
    assert "truncated_file" in log.symptoms
    assert values(log) == EXPECTED[: len(values(log))]
    assert len(values(log)) > 0 or pack is not gzip.compress  # the others give whole blocks alone


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "cannot be read"),
        (lambda path: path.mkdir(), "no log in this directory"),
    ],
    ids=["absent", "empty-directory"],
)
def test_what_cannot_be_read_is_one_error_with_its_name(tmp_path: Path, make: Callable[..., Any], says: str) -> None:
    path = tmp_path / "x.log"
    make(path)
    with pytest.raises(UserError, match=says) as raised:
        parse_log(path)
    assert str(path) in str(raised.value)


def test_a_growing_log_is_read_once_and_only_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "grows.log"
    tail = Tail(path)
    assert tail.read() == []
    path.write_text(line(1) + line(2)[:50])
    assert [row.step for row in tail.read()] == [1]
    with path.open("a") as file:
        file.write(line(2)[50:] + line(3))
    assert [row.step for row in tail.read()] == [2, 3]
    assert tail.read() == []
    assert [row.step for row in tail.log().steps] == [1, 2, 3]


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    threading.Thread(target=lambda: fifo.write_text(text(*range(1, 21)))).start()
    assert values(parse_log(fifo)) == EXPECTED
