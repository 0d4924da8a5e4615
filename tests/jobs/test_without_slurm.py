"""A copy of a run on a machine without Slurm: its done.json is the truth. And a log that names its recipe."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import calling
import kept_runs
import pytest
from test_answers import DONE, steps

from benchrun import kept
from benchrun.errors import SchedulerUnavailable
from benchrun.jobs import launcher
from benchrun.jobs.launcher import observe
from benchrun.rundir.folder import RunDir

Make = Callable[..., RunDir]


def ended(make: Make, **done: Any) -> RunDir:
    run = make()
    steps(run)
    (run.path / "done.json").write_text(json.dumps({**DONE, **done}))
    return run


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path without Slurm."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("bare")
def test_a_copied_run_is_judged_by_its_done_json(make: Make) -> None:
    run = ended(make)
    result = calling.call("compare", run.path, "--json")
    assert result.returncode != 2, result.stderr
    document = json.loads(result.stdout)
    assert (document["ending"], document["runs"]) == ("completed", 1)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("done", "over"),
    [({}, True), ({"exit_code": 1}, True), ({"exit_code": 143, "signal": "TERM"}, True), ({"job_id": "8"}, False)],
)
def test_only_a_done_json_of_this_job_ends_it(make: Make, done: dict[str, Any], over: bool) -> None:
    assert observe([ended(make, **done)])[0].over is over


@pytest.mark.usefixtures("bare")
def test_a_run_without_done_json_has_not_ended(make: Make) -> None:
    run = make()
    steps(run)
    result = calling.call("compare", run.path)
    assert (result.returncode, "has not ended" in result.stderr) == (2, True)


@pytest.mark.parametrize(("signal", "over"), [(None, True), ("TERM", False)])
def test_a_slurm_that_is_silent_may_have_started_a_stopped_job_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, signal: str | None, over: bool
) -> None:
    def silent(*_: Any) -> Any:
        raise SchedulerUnavailable("squeue gave no answer in 30 s")

    monkeypatch.setattr(launcher.SCHEDULERS["slurm"], "poll", silent)
    run = ended(make, signal=signal)
    assert observe([run])[0].over is over
    assert not (run.path / "ending.json").exists()


def test_the_log_of_a_worker_names_its_recipe(tmp_path: Path) -> None:
    run = kept_runs.named("llama3.1-8b-83a291bb-*")[0]
    folder = kept.place(run)
    log = next(folder.glob("stdout.log*"))
    copy = tmp_path / log.name
    copy.write_bytes(log.read_bytes())
    alone, named = (calling.call("compare", copy, *more, "--json") for more in ((), ("--recipe", "llama3.1-8b")))
    assert (alone.returncode, alone.stdout) == (named.returncode, named.stdout)
    assert json.loads(alone.stdout)["conditions"]["recipe"] == "llama3.1-8b"
