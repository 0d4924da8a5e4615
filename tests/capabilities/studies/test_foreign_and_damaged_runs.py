"""A study whose directory lists a run of another point, and runs with damaged documents."""

import json
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import kept_runs
import pytest

from benchrun import api, paths
from benchrun.capabilities.studies.resolved import ResolvedStudy
from benchrun.capabilities.studies.state import StudyDir
from benchrun.cli import main
from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import BREAKDOWN, ENDING, EVENTS, SPEC, STDOUT, TELEMETRY, XZ, EndingRecord
from benchrun.rundir.folder import RunDir
from tests.capabilities.acceptance.tampering import plan_file

STEPS = 20


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResolvedStudy:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1, "set": {"training.steps": STEPS}}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"description": "Mine", "runs": [run], "matrix": {"mbs": [1, 2]}}))
    return api.plan_study(Request(str(path)))


def ended(planned: ResolvedStudy, steps: int = STEPS, point: int = 0) -> RunDir:
    """A run of a point with a log of ``steps`` steps, which its scheduler has forgotten."""
    spec = planned.legal[point].spec
    assert spec is not None
    run = create(paths.runs_dir(), spec, render(spec))
    rows = (
        f" iteration {n:8d}/{STEPS:8d} | consumed samples: 1 | elapsed time per iteration (ms): {100 + n % 3:.3f} |"
        f" global batch size: {spec.gbs:5d} | lm loss: 2.0E+00 | number of nan iterations:   0 |\n"
        for n in range(1, steps + 1)
    )
    (run.path / STDOUT).write_text("".join(rows))
    run.write_json(ENDING, EndingRecord(ending="completed", evidence=("a test",)).model_dump(mode="json"))
    (run.path / EVENTS).unlink()
    os.utime(run.path / SPEC, (1e9, 1e9))
    directory = StudyDir(planned.expanded.name)
    with directory.locked():
        directory.record(planned.slots[point], run)
    return run


def test_a_completed_run_has_its_number_and_no_note(planned: ResolvedStudy) -> None:
    run = ended(planned)
    found = api.study_result(planned)
    assert (found.points[0].state, found.points[0].measured, found.points[0].runs) == ("completed", 1, (run.run_id,))
    assert (found.points[0].reason, found.notes) == (None, ())


def test_a_run_of_another_recipe_is_not_of_the_point(planned: ResolvedStudy) -> None:
    kept = kept_runs.first("llama3.1-8b-*")
    shutil.copytree(kept, paths.runs_dir() / kept.name)
    directory = StudyDir(planned.expanded.name)
    with directory.locked():
        directory.record(planned.slots[0], RunDir(paths.runs_dir() / kept.name))
    point = api.study_result(planned).points[0]
    assert (point.state, point.measured, point.runs) == ("waiting", 0, ())
    assert set(point.metrics.values()) == {None}
    assert point.reason and "llama3.1-8b" in point.reason and "tiny-llama" in point.reason
    assert api.study_runs(planned) == []


def test_a_run_of_another_point_is_not_of_the_point(planned: ResolvedStudy) -> None:
    run = ended(planned)
    directory = StudyDir(planned.expanded.name)
    with directory.locked():
        directory.record(planned.slots[1], run)
    points = api.study_result(planned).points
    assert [point.measured for point in points] == [1, 0]
    assert points[1].reason and run.run_id in points[1].reason
    assert points[0].reason is None


def test_a_repeat_is_a_number(planned: ResolvedStudy) -> None:
    run = ended(planned)
    directory = StudyDir(planned.expanded.name)
    file = directory.path / EVENTS
    file.write_text(file.read_text().replace('"repeat": 1', '"repeat": true'))
    assert run.run_id in file.read_text() and directory.runs() == {}


@pytest.mark.parametrize("text", ["{}", "", "[]", '{"schema_version": 1'])
def test_a_damaged_document_is_left_out_with_a_note(planned: ResolvedStudy, text: str) -> None:
    run = ended(planned)
    (run.path / BREAKDOWN).write_text(text)
    found = api.study_result(planned)
    assert (found.points[0].state, found.points[0].measured) == ("completed", 1)
    (note,) = found.notes
    assert run.run_id in note and BREAKDOWN in note
    assert [each.run_id for each in api.study_runs(planned)] == [run.run_id]
    assert [api.run_data(each).run_id for each in api.study_runs(planned)] == [run.run_id]


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\x00\x80"])
def test_a_run_with_a_damaged_ending_counts_as_its_log_measures(
    planned: ResolvedStudy, damage: bytes, old: bool
) -> None:
    run = ended(planned)
    if not old:
        os.utime(run.path / SPEC)
    (run.path / ENDING).write_bytes(damage)
    found = api.study_result(planned)
    assert (found.points[0].state, found.points[0].measured) == ("completed", 1)
    assert [ENDING in note for note in found.notes] == [True]
    assert (run.path / ENDING).read_bytes() == damage  # what the log shows is not stored as a record


def test_a_damaged_ending_of_a_run_that_stopped_early_gives_no_number(planned: ResolvedStudy) -> None:
    run = ended(planned, steps=STEPS // 2)
    (run.path / ENDING).write_text("")
    point = api.study_result(planned).points[0]
    assert (point.state, point.measured) == ("failed", 0)
    assert set(point.metrics.values()) == {None}


@pytest.mark.parametrize("steps", [STEPS, STEPS // 2])
def test_a_run_with_a_damaged_ending_is_not_launched_again(
    planned: ResolvedStudy, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended(planned, steps)
    (run.path / ENDING).write_text("{}")
    launched = []

    def submit(new: RunDir) -> None:
        launched.append(new)
        new.write_json(ENDING, EndingRecord(ending="failed", evidence=("a test",)).model_dump(mode="json"))

    monkeypatch.setattr("benchrun.capabilities.studies.usecase.submit", submit)
    api.run_study(planned, concurrency=4)
    assert [new.spec.repeat_key() for new in launched] == [planned.legal[1].spec.repeat_key()]


@pytest.mark.parametrize("damage", ["", "{}"])
def test_a_run_with_a_damaged_ending_is_no_evidence_of_a_plan(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    plan = api.plan_acceptance(str(plan_file(tmp_path, 3.1)))
    run = ended(plan.study)
    assert api.runs_of(plan) == {1: [run]}
    (run.path / ENDING).write_text(damage)
    with pytest.raises(UserError) as error:
        api.runs_of(plan)
    assert error.value.where == str(run.path / ENDING)


def cut_samples(run: RunDir) -> None:
    (run.path / TELEMETRY).mkdir(exist_ok=True)
    (run.path / TELEMETRY / f"node1.csv{XZ}").write_bytes(lzma.compress(b"a line\n" * 500)[:-20])


def without_specification(run: RunDir) -> None:
    (run.path / SPEC).write_text("[]")


@pytest.mark.parametrize("damage", [cut_samples, without_specification])
def test_a_run_that_cannot_be_read_hides_no_other_one(
    planned: ResolvedStudy, damage: Callable[[RunDir], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The second point's run is damaged: the report names it, and has the first one's numbers."""
    run, other = ended(planned), ended(planned, point=1)
    damage(other)
    found = api.study_result(planned)
    assert [point.measured for point in found.points] == [1, 0]
    assert found.points[1].reason and other.run_id in found.points[1].reason
    assert [other.run_id in note for note in found.notes] == [True]
    assert not found.complete
    for form in ("plain", "html"):
        with pytest.raises(SystemExit) as end:
            main(["study", str(paths.runs_dir().parent / "mine.yaml"), "--report", "--format", form])
        out, err = capsys.readouterr()
        assert (end.value.code, run.run_id in err, other.run_id in err) == (4, False, True)
        assert out
