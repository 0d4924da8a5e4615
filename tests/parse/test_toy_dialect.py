"""A dialect that a test adds through the registry is read like any other."""

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS, parse_log, register_dialect
from benchrun.logs.dialect import COUNT, DECIMAL, Dialect, Record, Value
from benchrun.measure.summary import summarise

_STEP = re.compile(r"toy step (\d{1,15}) took (\d+\.\d+) s")


class Toy(Dialect):
    """One line a step."""

    name = "toy"
    step_needles = (b"toy step ",)

    def records(self, text: str) -> Iterator[Record]:
        """The step of a line."""
        if match := _STEP.search(text):
            step = Value("step", match[1], match.start(1), COUNT)
            yield Record([step, Value("step_time_s", match[2], match.start(2), DECIMAL)])


@pytest.fixture
def registered() -> Iterator[None]:
    with patch.dict(DIALECTS):
        register_dialect(Toy)
        yield


@pytest.mark.usefixtures("registered")
def test_a_registered_dialect_is_found_by_its_lines(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("".join(f"toy step {n} took {2 + n % 3 / 10:.1f} s\n" for n in range(1, 41)))
    log = parse_log(tmp_path / "x.log")
    assert (log.framework, len(log.steps), log.steps[39].step_time_s) == ("toy", 40, 2.1)
    spread = summarise(log).step_time_s
    assert spread is not None
    assert spread.median == 2.1


def test_without_it_the_log_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("toy step 1 took 2.0 s\n")
    assert parse_log(tmp_path / "x.log").framework == "unknown"
    with pytest.raises(UserError):
        parse_log(tmp_path / "x.log", framework="toy")


class Scores(Dialect):
    """Results, and no steps."""

    name = "scores"
    step_needles = (b"score of ", b"all scored")
    result_pairs = re.compile(r"score of (\w+): (\S+)")
    end_words = "all scored"


@pytest.mark.parametrize(("last", "complete"), [("all scored\n", True), ("", False)], ids=["ended", "cut off"])
def test_a_dialect_may_state_results_and_no_step(tmp_path: Path, last: str, complete: bool) -> None:
    (tmp_path / "x.log").write_text(f"score of reading: 0.75\nscore of sums: nan\nscore of sums: 12\n{last}")
    with patch.dict(DIALECTS):
        register_dialect(Scores)
        log = parse_log(tmp_path / "x.log")
    assert (log.framework, log.results, len(log.steps)) == ("scores", {"reading": 0.75, "sums": 12.0}, 0)
    assert log.complete(None) is complete


def test_the_results_of_several_files_are_one_runs(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("score of reading: 0.75\n")
    (tmp_path / "b.log").write_text("score of sums: 12\nall scored\n")
    with patch.dict(DIALECTS):
        register_dialect(Scores)
        log = parse_log(tmp_path / "a.log", tmp_path / "b.log")
    assert (log.results, log.complete(None)) == ({"reading": 0.75, "sums": 12.0}, True)
