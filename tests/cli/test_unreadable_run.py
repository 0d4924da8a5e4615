"""A run that cannot be read hides no other run that is named beside it."""

import json
import shutil
from pathlib import Path

import kept_runs
import pytest
from test_contract import call


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
