"""A kept run has small traces, or the fingerprint in place of large ones, which commands read as they read traces."""

import json
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from known import LACKING, apart, kept, known
from selection import representative
from test_with_a_trace import rank, trace

from benchrun import api
from benchrun.capabilities.explain.model import FAULT_SHARE
from benchrun.capabilities.explain.usecase import explain_run
from benchrun.capabilities.traces.usecase import fingerprint_of, fingerprint_of_run
from benchrun.rundir.artifacts import BREAKDOWN, FINGERPRINT, PROFILE, VERDICT
from benchrun.rundir.fingerprint import Classes, Fingerprint
from benchrun.rundir.folder import RunDir
from benchrun.usecases.measurement import keep

KEPT = kept_runs.named(file=FINGERPRINT)
TRACED = [path for path in KEPT if path in kept_runs.named(file=f"{PROFILE}/rank0.json.xz")]
UNTRACED = [path for path in KEPT if path not in TRACED]
DIVIDED = [path for path in KEPT if path in kept_runs.named(file=BREAKDOWN)]
POINTS = 3
TRACE = Path(__file__).parents[1] / "traces/traces/nsys_2gpu_training.sqlite.xz"


def numbers(known: Fingerprint) -> dict[str, Any]:
    """A fingerprint without names of files and hosts, and without what older versions did not write."""
    unlike = {"kernels": True, "sentence": True, "stragglers": {"__all__": {"host"}}}
    return known.model_dump(exclude={"ranks": {"__all__": {"file", "host"}}, **unlike})


@pytest.mark.parametrize("path", representative(UNTRACED), ids=lambda path: path.name)
def test_a_kept_fingerprint_is_shown(path: Path) -> None:
    shown, empty = fingerprint_of([path])
    stored = json.loads((kept_runs.folder(path) / FINGERPRINT).read_text())
    assert shown.model_dump(mode="json", by_alias=True).items() >= stored.items()
    assert "Advice: " in shown.sentence or "No loss" in shown.sentence
    assert not empty


@pytest.mark.parametrize("path", representative(TRACED), ids=lambda path: path.name)
def test_kept_traces_give_the_kept_fingerprint(path: Path) -> None:
    run = kept_runs.folder(path)
    stored = Fingerprint.model_validate_json((run / FINGERPRINT).read_text())
    again = fingerprint_of_run(RunDir(run))
    assert again is not None
    assert numbers(again) == numbers(stored)


@pytest.mark.parametrize("path", representative(KEPT), ids=lambda path: path.name)
def test_a_kept_fingerprint_explains(path: Path) -> None:
    explained = explain_run(RunDir(kept_runs.folder(path)))
    assert sum(part.seconds for part in explained.waterfall) == pytest.approx(explained.step_time_s, rel=1e-4)
    assert not any("trace" in line for line in explained.missing)
    faults = [cause for cause in explained.causes if cause.kind == "fault"]
    assert not [cause for cause in faults if cause.seconds >= FAULT_SHARE * explained.step_time_s]


def test_the_host_of_a_small_fine_tune_is_late_and_the_profiler_is_not_blamed_on_it() -> None:
    """nsys made the profiled steps longer; what the GPU computes takes as long in a measured step."""
    run = RunDir(kept_runs.first("llama2-7b-lora-5f2656c4*"))
    explained, known = explain_run(run), fingerprint_of_run(run)
    assert known is not None
    (host,) = (cause for cause in explained.causes if cause.cause == "host")
    assert 0.03 < host.seconds / explained.step_time_s < known.ranks[0].idle


@pytest.mark.parametrize("path", representative(DIVIDED), ids=lambda path: path.name)
def test_the_causes_of_the_profiled_step_are_those_of_the_trace(path: Path) -> None:
    """Within 3 points of the step, each read without the other.

    What only one of them can show is not compared: up to 4 points of a measured step are in no profiled one.
    """
    points = apart(api.evidence(RunDir(kept_runs.folder(path))))
    assert points.pop(LACKING, 0.0) < 4, points
    assert max(points.values()) < POINTS, points


@pytest.mark.parametrize(("waiting", "agrees"), [(0.0, True), (0.05, False)])
def test_what_a_trace_shows_differently_is_noticed(waiting: float, agrees: bool) -> None:
    run = kept()
    step, profiled = run.breakdown.step_s, run.breakdown
    compute = (profiled.matmul_s + profiled.attention_s + profiled.other_s) / step - waiting
    traced = rank(0, compute=compute, exposed=profiled.communication_s / step + waiting)
    classes = Classes(
        matmul=profiled.matmul_s / step - waiting,
        attention=profiled.attention_s / step,
        memory_bound=profiled.other_s / step,
        communication=profiled.communication_s / step,
    )
    both = known(fingerprint=trace(traced.model_copy(update={"classes": classes}), step_s=step))
    assert (max(apart(both).values()) < POINTS) is agrees


def test_keeping_a_profiled_run_keeps_the_fingerprint_of_its_trace(tmp_path: Path) -> None:
    source = RunDir(kept_runs.folder(KEPT[-1]))
    run = tmp_path / "runs" / source.run_id
    run.mkdir(parents=True)
    for file in source.path.iterdir():
        if file.is_file() and file.name != FINGERPRINT:
            (run / file.name).write_bytes(file.read_bytes())
    (run / PROFILE).mkdir()
    (run / PROFILE / TRACE.name).write_bytes(TRACE.read_bytes())
    assert (run / VERDICT).exists()
    kept = keep(RunDir(run), tmp_path / "kept")
    stored, traced = fingerprint_of_run(kept), fingerprint_of_run(RunDir(run))
    assert stored is not None
    assert traced is not None
    assert [rank.file for rank in stored.ranks] == ["rank0.json", "rank1.json"]  # a name may hold the host
    assert [rank.model_dump(exclude={"file"}) for rank in stored.ranks] == [
        rank.model_dump(exclude={"file"}) for rank in traced.ranks
    ]
    assert not (kept.path / PROFILE).exists()
