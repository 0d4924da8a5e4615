"""A run that cannot be read hides no other run that is named beside it."""

import json
import os
import shutil
from pathlib import Path

import kept_runs
import pytest
from test_contract import call

import benchrun
from benchrun.errors import UserError, exit_code_of
from benchrun.vocabulary import Exit


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with a good run and one whose specification is damaged."""
    kept = kept_runs.first("llama3.1-8b-13c939ac-*")
    shutil.copytree(kept, tmp_path / "results/runs" / kept.name)
    damaged = tmp_path / "results/runs/damaged"
    damaged.mkdir()
    (damaged / "spec.json").write_text("[]")
    return tmp_path


@pytest.mark.parametrize("names", [("damaged", "GOOD"), ("GOOD", "damaged"), ("GOOD", "nosuchrun")])
@pytest.mark.parametrize("verb", ["compare", "report", "status"])
def test_the_other_runs_are_judged_and_shown(results: Path, verb: str, names: tuple[str, str]) -> None:
    good = next((results / "results/runs").glob("llama*")).name
    result = call(verb, *(name.replace("GOOD", good) for name in names), "--json", cwd=results)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    bad = next(name for name in names if name != "GOOD")
    assert bad in result.stderr
    document = json.loads(result.stdout)
    assert document
    if verb == "status":
        assert [row["run_id"] for row in document] == [good]


def test_status_of_a_damaged_run_does_not_call_the_folder_empty(results: Path) -> None:
    result = call("status", "damaged", cwd=results)
    assert result.returncode == 2
    assert "no runs in" not in result.stderr


def test_status_of_a_state_that_does_not_exist_names_the_legal_ones(results: Path) -> None:
    result = call("status", "--state", "runing", cwd=results)  # codespell:ignore runing
    assert (result.returncode, "did you mean 'running'" in result.stderr) == (2, True)


def test_a_report_is_json_by_its_format_and_by_its_file(results: Path) -> None:
    good = next((results / "results/runs").glob("llama*")).name
    texts = [call("report", good, *words, cwd=results).stdout for words in (["--json"], ["--format", "json"])]
    assert call("report", good, "--output", "report.json", cwd=results).stdout == ""
    assert texts == 2 * [(results / "report.json").read_text()]
    assert call("report", good, "--json", "--format", "csv", cwd=results).returncode == 2


# A path that the user named and that may not be read, or cannot exist: one error, exit code 2, no traceback.

TOO_LONG = "x" * 300
VERBS = ("parse", "compare", "report", "status", "explain", "fingerprint", "diff")


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_that_is_too_long_for_a_file(verb: str) -> None:
    result = call(verb, *[TOO_LONG] * (2 if verb == "diff" else 1))
    assert result.returncode == Exit.USER
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("read", [benchrun.load, benchrun.frame])
def test_python_raises_one_kind_of_error(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(read)
    with pytest.raises(UserError, match="cannot be read"):
        read(TOO_LONG)
    (tmp_path / "a.log").write_text("one line\n")

    def refuse(self: Path, *args: object, **options: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "is_file", refuse)
    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        read(tmp_path / "a.log")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("verb", ["parse", "compare", "report", "status"])
def test_a_directory_without_permission(verb: str, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    assert call(verb, tmp_path / "closed" / "run").returncode == Exit.USER


def test_a_full_disk_is_the_machines_fault() -> None:
    assert exit_code_of(OSError(28, "No space left on device")) is Exit.MACHINE
    assert exit_code_of(PermissionError(13, "Permission denied")) is Exit.USER
