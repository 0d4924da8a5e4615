"""The table of all runs: what is one row, and whose speed stands in it."""

import dataclasses
import json
import re
from pathlib import Path

import kept_runs
import pytest
from selection import representative
from test_measured import KEPT, text_of

from benchrun import api, kept, paths
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.conditions import conditions
from benchrun.judge.verdict import RunResult, judge
from benchrun.logs import Log, Rows, Step
from benchrun.measure.model import Metrics
from benchrun.measure.setting import setting_of
from benchrun.measure.summary import measure
from benchrun.memory import estimate
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.show.runs import points_by_repeats
from benchrun.show.terminal import run_page
from benchrun.usecases.keep import PATH

SPEC = resolve(Request("llama3.1-8b", "H100", "fp8", 64))


def result(step_time_s: float, ending: str = "completed", spec: TrainingSpec = SPEC) -> RunResult:
    rows = Rows(Step(step=i, step_time_s=step_time_s, line=i, loss=2.0) for i in range(1, 51))
    metrics = measure(Log("x.log", "megatron-lm", rows), setting_of(spec), planned_steps=50)
    return RunResult("x", spec, metrics, judge(conditions(spec), [metrics], (), ending=ending))


def test_repeats_are_one_row_with_their_median_and_range() -> None:
    (row,) = points_by_repeats([result(10.0), result(10.2), result(10.1)]).records()
    assert (row["runs"], row["step_time_s"]) == (3, 10.1)
    assert row["spread_pct"] == pytest.approx(100 * 0.2 / 10.1, abs=1e-3)


def test_one_run_has_no_range() -> None:
    (row,) = points_by_repeats([result(10.0)]).records()
    assert row["spread_pct"] is None


def test_an_invalid_run_is_counted_and_its_speed_is_not() -> None:
    (row,) = points_by_repeats([result(10.0), result(9.0, ending="failed")]).records()
    assert (row["runs"], row["step_time_s"]) == (2, 10.0)
    assert "invalid_run" in row["verdict"]


def test_the_same_point_on_two_clusters_is_two_rows() -> None:
    other = SPEC.model_copy(update={"cluster": SPEC.cluster.model_copy(update={"name": "other"})})
    rows = points_by_repeats([result(10.0), result(12.0, spec=other)]).records()
    assert [row["step_time_s"] for row in rows] == [10.0, 12.0]


def test_points_and_curves_are_of_the_newest_software_alone() -> None:
    runs = []
    for day, (driver, version) in enumerate([("570", "2.9"), ("580", "2.9"), ("580", "2.11"), ("580", "2.11")]):
        environment = {"nodes": [{"driver": driver, "versions": {"torch": version}}]}
        for gpus in (64, 128):
            run = result(12.0 - day, spec=SPEC.resized(num_gpus=gpus, gbs=SPEC.gbs * gpus // 64))
            name = f"x-{gpus}-2026112{day}T000000Z-0000"
            runs.append(dataclasses.replace(run, run_id=name, environment=environment))
    model = api.report_on(runs)
    for row in model.points.records():
        assert (row["runs"], row["step_time_s"]) == (2, 9.5)
    assert {point.step_s for curve in model.curves for point in curve.measured} == {9.5}
    assert (len(model.results), model.left_out.split(" with ")[0]) == (8, "Left out: 4 runs")
    unknown = [dataclasses.replace(run, environment={}) for run in runs]
    assert api.report_on(unknown).left_out == "", "what is not known does not differ"


@pytest.mark.parametrize("ending", ["failed", "out_of_memory_host", "cancelled"])
def test_a_run_that_broke_and_was_not_judged_is_counted_and_its_speed_is_not(ending: str) -> None:
    broken = dataclasses.replace(result(9.0), verdict=None, ending=ending)
    (row,) = points_by_repeats([result(10.0), broken]).records()
    assert (row["runs"], row["step_time_s"]) == (2, 10.0)
    assert ending in row["verdict"]
    assert "step time" not in run_page(broken)
    assert ending in run_page(broken)


def test_the_page_of_a_run_names_the_command_that_judges_it() -> None:
    for ending, command in (("completed", "compare"), ("failed", "status")):
        unjudged = dataclasses.replace(result(9.0), verdict=None, ending=ending)
        assert f"benchrun {command} {unjudged.run_id}" in run_page(unjudged)


# The committed runs: logs give their numbers, memory was estimated, and they do not tell where they ran.


def estimated(path: Path) -> bool:
    """Whether the run trained in the worker."""
    entry = kept.entries(paths.MEASURED)[path.name]
    return entry["workload"] == "training" and FRAMEWORKS[entry["framework"]].own_worker


OF_THE_WORKER = [path for path in KEPT if estimated(path)]


@pytest.mark.parametrize("path", representative(KEPT), ids=lambda path: path.name)
def test_a_committed_log_gives_the_committed_metrics_to_the_digit(path: Path) -> None:
    run = RunDir(kept_runs.folder(path))
    committed = Metrics.model_validate(run.read_json("metrics.json"))
    # Counted since later versions only: what older files do not say is not compared.
    since = {"steps_timed", "skipped_updates", "peak_memory_gib"} - committed.model_fields_set
    again = api.measure_run(run, committed.warmup).metrics
    assert again.model_dump(exclude=since) == committed.model_dump(exclude=since)


@pytest.mark.parametrize("path", representative(OF_THE_WORKER), ids=lambda path: path.name)
def test_a_committed_run_took_the_memory_that_was_estimated(path: Path) -> None:
    (peak,) = re.findall(r'"peak_memory_gib": ([\d.]+)', text_of(kept_runs.folder(path))["stdout.log.xz"])
    spec = RunSpec.read(kept_runs.folder(path) / "spec.json")
    assert estimate(spec).total == pytest.approx(float(peak), rel=0.1 if spec.framework == "hf" else 0.05)


@pytest.mark.parametrize("path", representative(KEPT), ids=lambda path: path.name)
def test_a_committed_run_does_not_tell_where_it_ran(path: Path) -> None:
    for name, text in text_of(kept_runs.folder(path)).items():
        found = PATH.search(text)
        assert found is None, f"{name}: {found[0]}"
    env = json.loads((kept_runs.folder(path) / "env.json").read_text())
    assert all(re.fullmatch(r"node\d+", node["host"]) for node in env["nodes"])
