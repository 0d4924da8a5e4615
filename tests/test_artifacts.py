"""Every file of a run directory has its name in one place."""

import ast
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import DEADLINE_S

from benchrun import api
from benchrun.jobs import supervise
from benchrun.jobs.launcher import observe, write_env
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir import artifacts

PACKAGE = Path(__file__).parents[1] / "benchrun"
EXEMPT = {"rundir/artifacts.py", "jobs/supervise.py", "kept.py"}
"""The place of the names, a program that runs without this package, and a module that `benchrun list` needs at once."""
NAMES = {name for name in artifacts.FILES if "." in name} | {artifacts.LOCAL_LOCK}
"""A folder's name is an ordinary word."""


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Every text in a file but docstrings, with its line."""
    tree = ast.parse(path.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if str(path.relative_to(PACKAGE)) not in EXEMPT]


def test_no_name_of_a_run_file_is_written_twice() -> None:
    for path in SOURCES:
        repeated = [(line, text) for line, text in literals(path) if text.rpartition("/")[2] in NAMES]
        assert repeated == [], path


def test_the_supervisor_of_local_jobs_uses_the_same_names() -> None:
    assert supervise.STATE == artifacts.LOCAL_STATE
    names = {text for _, text in literals(Path(supervise.__file__))}
    assert names >= {artifacts.STDOUT, artifacts.STDERR, artifacts.JOB}


def test_a_step_file_is_a_log_of_the_job() -> None:
    assert artifacts.Progress.model_json_schema()["properties"]["step_file"]["anyOf"][0]["enum"] == [
        artifacts.STDOUT,
        artifacts.STDERR,
    ]


@pytest.mark.parametrize("point", [("tiny-llama", "CPU", "fp32", 2), ("llama3.1-8b", "H100", "fp8", 8, "nemo2")])
def test_every_file_that_a_job_script_writes_has_a_name_here(point: tuple[str, str, str, int]) -> None:
    files = render(resolve(Request(*point)))
    text = "\n".join(text for name, text in files.items() if name.endswith(".sh"))
    written = set(re.findall(r"(?<![\w./$}-])[a-z_]+\.(?:json|jsonl|log)(?![\w.])", text))
    assert {artifacts.DONE, artifacts.PROGRESS, artifacts.STDOUT} <= written <= set(artifacts.FILES)
    assert artifacts.NO_STEP in text and f"{artifacts.PROBE}/" in text


def test_every_file_of_a_local_run_has_a_name_here(tmp_path: Path) -> None:
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/bash\necho a step\n")
    program.chmod(0o755)
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(f"cluster.python={program}",)))
    run = api.start(spec, tmp_path / "runs")
    end = time.monotonic() + DEADLINE_S
    while not (observation := observe([run])[0]).over:
        assert time.monotonic() < end
        time.sleep(0.1)
    write_env(run)
    run.write_json(artifacts.ENDING, api.end_of(observation).model_dump(mode="json"))
    names = {path.name for path in run.path.iterdir()}
    assert {artifacts.SPEC, artifacts.DONE, artifacts.STDOUT, artifacts.PROBE, artifacts.LOCAL_STATE} <= names
    assert names <= set(artifacts.FILES)
    assert {path.name for path in run.path.parent.iterdir()} == {run.run_id, artifacts.LOCAL_LOCK}
    read = {
        artifacts.DONE: artifacts.Done,
        artifacts.ENV: artifacts.Environment,
        artifacts.ENDING: artifacts.EndingRecord,
    }
    for name, model in read.items():
        assert model.model_validate(run.read_json(name))
