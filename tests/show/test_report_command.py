"""``benchrun report`` writes files, and overwrites none."""

import shutil
from pathlib import Path
from subprocess import CompletedProcess

import kept_runs
import pytest
from calling import call

RUN = kept_runs.named("llama3.1-8b-*")[0]


def report(*words: str, cwd: Path) -> CompletedProcess[str]:
    return call("report", *words, cwd=cwd)


@pytest.mark.parametrize(
    ("name", "begins"),
    [("r.html", "<!DOCTYPE html>"), ("r.xml", "<?xml"), ("r.csv", "recipe,framework,gpu"), ("r.md", "# llama3.1-8b-")],
)
def test_the_ending_of_the_file_is_the_format(tmp_path: Path, name: str, begins: str) -> None:
    result = report(str(RUN), "--output", name, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert (tmp_path / name).read_text().startswith(begins)
    again = report(str(RUN), "--output", name, cwd=tmp_path)
    assert (again.returncode, "exists" in again.stderr) == (2, True)


def test_an_ending_that_names_no_format_is_refused(tmp_path: Path) -> None:
    result = report(str(RUN), "--output", "r.pdf", cwd=tmp_path)
    assert (result.returncode, ".html" in result.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_format_that_the_ending_contradicts_is_refused(tmp_path: Path) -> None:
    result = report(str(RUN), "--output", "r.html", "--format", "csv", cwd=tmp_path)
    assert (result.returncode, "--format says csv" in result.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_not_judged_is_no_answer(tmp_path: Path) -> None:
    shutil.copytree(kept_runs.folder(RUN), tmp_path / RUN.name)
    judged = report(str(tmp_path / RUN.name), "--format", "csv", cwd=tmp_path)
    (tmp_path / RUN.name / "verdict.json").unlink()
    unjudged = report(str(tmp_path / RUN.name), "--format", "csv", cwd=tmp_path)
    assert (judged.returncode, unjudged.returncode) == (0, 4)
    assert "not judged" in unjudged.stdout


@pytest.mark.parametrize(("name", "begins"), [("s.csv", "curve,scaling"), ("s.html", "<!DOCTYPE"), ("s.md", "## ")])
def test_curves_are_written_in_every_format(tmp_path: Path, name: str, begins: str) -> None:
    runs = [str(path) for path in kept_runs.named("llama3.1-8b-*")]
    result = report(*runs, "--scaling", "--output", name, cwd=tmp_path)
    assert (result.returncode in (0, 1, 4), result.stdout) == (True, ""), result.stderr
    text = (tmp_path / name).read_text()
    assert text.startswith(begins) and "trong" in text


def test_a_file_without_an_ending_takes_the_format_that_is_named(tmp_path: Path) -> None:
    assert report(str(RUN), "--output", "r", "--format", "junit", cwd=tmp_path).returncode == 0
    assert (tmp_path / "r").read_text().startswith("<?xml")
