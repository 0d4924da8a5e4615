"""The step time that ``benchrun status`` shows: measured, or of the last steps where nothing measured the run."""

from pathlib import Path

import pytest

from benchrun import api
from benchrun.jobs.create import create
from benchrun.jobs.launcher import Observation
from benchrun.jobs.scheduler import Job, Phase
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import ENDING, METRICS, STDOUT
from benchrun.rundir.folder import RunDir

STEPS = 12


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run with twelve planned steps of 2 s, and three profiled ones of 9 s after them."""
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(f"training.steps={STEPS}",)))
    made = create(tmp_path, spec, render(spec))
    rows = [
        f" iteration {n:8d}/{STEPS:8d} | elapsed time per iteration (ms): {2000.0 if n <= STEPS else 9000.0}"
        f" | global batch size: {spec.gbs:5d} | lm loss: {9 - n / 10:.6E} |"
        for n in range(1, STEPS + 4)
    ]
    (made.path / STDOUT).write_text("\n".join([*rows, ""]))
    return made


def shown(run: RunDir, state: str) -> float | None:
    job = Job("1", Phase.ENDED, state, 0)
    api.record_end(Observation(run, job, over=True, settled=True))
    recorded = run.read_json(ENDING)
    assert recorded is not None
    assert (recorded["ending"], recorded["last_step"]) == (state.lower(), STEPS + 3)
    (observation,) = api.observe([run])
    time = api.status_of(observation)["step_time_s"]
    assert time is None or isinstance(time, float)
    return time


def test_a_completed_run_that_nobody_judged_has_the_time_of_its_last_planned_steps(run: RunDir) -> None:
    assert shown(run, "COMPLETED") == pytest.approx(2.0)


def test_a_measured_run_has_the_measured_time(run: RunDir) -> None:
    run.write_json(METRICS, {"step_time_s": {"median": 2.5}})
    assert shown(run, "COMPLETED") == 2.5


def test_a_failed_run_has_none(run: RunDir) -> None:
    assert shown(run, "FAILED") is None
