"""``benchrun report`` writes files, and overwrites none."""

import json
import re
import shutil
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import kept_runs
import pytest
from calling import call

from benchrun import kept, paths

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


def test_what_was_written_is_said_with_how_many_runs_are_slow(tmp_path: Path) -> None:
    chosen = list(map(str, kept_runs.named("nemotron4-15b-*")))
    result = report(*chosen, "--output", "r.csv", cwd=tmp_path)
    verdicts = [kept.entries(paths.MEASURED)[Path(run).name]["verdict"] for run in chosen]
    assert (result.returncode, verdicts.count("slow")) == (1, 2)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("wrote r.csv: ")]
    assert f"{len(chosen)} runs" in line
    counts = re.findall(r"(\d+) [a-z ]+", line.rpartition(": ")[2])
    assert "2 slow" in line and sum(map(int, counts)) == len(chosen)


def test_runs_are_chosen_by_recipe_time_and_verdict(tmp_path: Path) -> None:
    def chosen(*words: str, code: int) -> list[dict[str, Any]]:
        result = report(str(paths.MEASURED), *words, "--json", cwd=tmp_path)
        assert result.returncode == code, result.stderr
        return json.loads(result.stdout)

    rows = chosen("--recipe", "nemotron4-15b", "--verdict", "slow", code=1)
    assert {(row["recipe"].split()[0], row["verdict"]) for row in rows} == {("nemotron4-15b", "slow")}
    for words in (("--recipe", "nemotron4-15b", "--recipe", "gpt3-175b"), ("--recipe", "nemotron4-15b,gpt3-175b")):
        rows = chosen(*words, code=1)
        assert {row["recipe"].split()[0] for row in rows} == {"nemotron4-15b", "gpt3-175b"}
    days = [row["launched"][:8] for row in chosen("--since", "2026-11-22", "--until", "2026-11-22", code=1)]
    assert days and set(days) == {"20261122"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--verdict", "slwo"), 2, "no verdict is called 'slwo'"),
        (("--since", "22.11.2026"), 2, "2026-11-22"),
        (("--until", "2020-01-01"), 4, "is of this time"),
        (("--recipe", "lama3.1-8b,llama3.1-8b"), 4, "is of the recipe 'lama3.1-8b'"),
        (("--verdict", "timeout"), 4, "no run has the verdict timeout"),
        (("--verdict", "slow", "--history"), 2, "leave --verdict out"),
    ],
)
def test_a_choice_of_nothing_says_so(words: tuple[str, ...], code: int, says: str, tmp_path: Path) -> None:
    result = report(str(RUN), *words, cwd=tmp_path)
    assert (result.returncode, says in result.stderr, result.stdout) == (code, True, ""), result.stderr
