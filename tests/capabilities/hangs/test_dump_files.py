"""`benchrun explain --dumps DIR`: any job's dumps, and no code of theirs."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from calling import call
from jobs import Fault, write


class Evil:
    """Would make a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.made),)


def test_the_document(tmp_path: Path) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    (tmp_path / "fault_injection.log").write_text("rank 0")
    (tmp_path / "notes.1").write_text("cuda\nsystem\n")
    result = call("explain", "--dumps", tmp_path, "--json")
    assert result.returncode == 4
    found = json.loads(result.stdout)
    assert (found["step_time_s"], found["waterfall"], found["causes"]) == (None, [], [])
    assert {**found["hang"], "evidence": []} == {
        **{"ranks": [3], "group": "tp", "collective": "all_reduce", "sequence": 9, "where": "host"},
        "evidence": [],
    }
    assert found["hang"]["evidence"]


def test_the_first_line_is_one_sentence(tmp_path: Path) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    text = call("explain", "--dumps", tmp_path).stdout
    assert "the others wait for rank 3 (host) in all_reduce 9 of group tp" in text.splitlines()[0]


def test_a_job_at_work_hangs_nowhere(tmp_path: Path) -> None:
    write(tmp_path, 4, 2, None)
    result = call("explain", "--dumps", tmp_path, "--json")
    assert (result.returncode, json.loads(result.stdout)["hang"]) == (0, None)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_one_error(tmp_path: Path, protocol: int) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    made = tmp_path / "made"
    (tmp_path / "_dump_1").write_bytes(pickle.dumps({"entries": [Evil(made)]}, protocol))
    result = call("explain", "--dumps", tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "_dump_1: the pickle asks to run code" in result.stderr
    assert not made.exists()


@pytest.mark.parametrize("cut", [1, 2, 50, 400])
def test_a_pickle_that_would_run_code_and_is_cut_off(tmp_path: Path, cut: int) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    made = tmp_path / "made"
    data = pickle.dumps({"first": Evil(made), "entries": [0] * 300}, 2)
    (tmp_path / "_dump_1").write_bytes(data[:-cut])
    assert call("explain", "--dumps", tmp_path).returncode == 2
    assert not made.exists()


@pytest.mark.parametrize(
    "document",
    [[], {"entries": 3}, {"entries": [3]}, {"entries": [{}]}, {"entries": [], "pg_config": 5, "pg_status": 7}],
)
def test_other_pickles_are_no_dumps_or_damaged_ones(tmp_path: Path, document: Any) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    (tmp_path / "_dump_3").write_bytes(pickle.dumps(document, 2))
    result = call("explain", "--dumps", tmp_path, "--json")
    assert result.returncode == 4, result.stderr
    assert json.loads(result.stdout)["hang"]["ranks"] == []


def test_a_folder_without_dumps(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("x")
    result = call("explain", "--dumps", tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no dump" in result.stderr


@pytest.mark.parametrize("words", [(), ("--dumps", ".", "run"), ("--dumps", ".", "--gpu", "H100")])
def test_dumps_stand_alone(words: tuple[str, ...]) -> None:
    result = call("explain", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--dumps DIR" in result.stderr
