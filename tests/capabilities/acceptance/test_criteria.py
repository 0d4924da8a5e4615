"""Each criterion on made-up measurements: passed, failed, or no answer; and what follows for the cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.capabilities.acceptance.criteria import Acceptance, Criterion, PointEvidence, judged
from benchrun.judge.conditions import conditions
from benchrun.judge.references import Reference, Source
from benchrun.judge.verdict import RunResult, judge
from benchrun.logs import Log, Rows, Step
from benchrun.measure.model import Metrics
from benchrun.measure.setting import setting_of
from benchrun.measure.summary import measure
from benchrun.measure.telemetry import Telemetry

STEPS = 30


def metrics(spec: Any, step_s: float, steps: int = STEPS, memory: float | None = None) -> Metrics:
    rows = Rows(Step(step=i, step_time_s=step_s + 1e-6 * (i % 3), line=i, loss=2.0) for i in range(1, steps + 1))
    log = Log(file="x.log", framework="megatron-core", steps=rows)
    log.facts.peak_memory_gib = memory
    return measure(log, setting_of(spec), planned_steps=STEPS)


class Case:
    """A plan of one run on one and two ranks, and what its runs measured."""

    def __init__(self, folder: Path, **criteria: Any) -> None:
        run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": [1, 2], "set": {"training.steps": STEPS}}
        path = folder / "case.yaml"
        path.write_text(json.dumps({"description": "x", "runs": [run], "repeats": 2, "criteria": criteria}))
        self.plan = api.plan_acceptance(str(path))
        self.specs = [point.spec for point in self.plan.study.points]
        self.runs: tuple[list[RunResult], list[RunResult]] = ([], [])
        self.reference: float | None = None

    def add(self, point: int, step_s: float = 1.0, ending: str = "completed", **more: Any) -> "Case":
        run_id = f"run-{point}-{len(self.runs[point])}"
        telemetry = more.pop("telemetry", None)
        found = metrics(self.specs[point], step_s, **more).model_copy(update={"telemetry": telemetry})
        self.runs[point].append(RunResult(run_id, self.specs[point], found, None, ending))
        return self

    def whole(self, *seconds: float) -> "Case":
        """Two repeats of each point, with these step times."""
        for point, step_s in enumerate(seconds):
            self.add(point, step_s).add(point, step_s * 1.01)
        return self

    def judged(self) -> Acceptance:
        evidence = []
        for number, (spec, runs) in enumerate(zip(self.specs, self.runs, strict=True), 1):
            valid = [run.numbers for run in runs if run.numbers]
            own = conditions(spec)
            entries = [] if self.reference is None else [reference(own, self.reference)]
            verdict = judge(own, valid, entries, ending="completed") if valid else None
            evidence.append(PointEvidence(spec, self.plan.criteria(number), tuple(runs), verdict))
        return judged(self.plan, evidence, {})

    def one(self, name: str, point: int = 1) -> Criterion:
        return next(each for each in self.judged().criteria if (each.criterion, each.point) == (name, point))


def reference(own: Any, step_s: float) -> Reference:
    source = Source(who="x", where="y", date="2026")
    return Reference(id="x:1", metric="step_time_s", value=step_s, better="lower", key=own, source=source)


def test_all_criteria_met_is_accepted_with_exit_code_0(tmp_path: Path) -> None:
    acceptance = Case(tmp_path, max_spread_percent=2).whole(1.0, 0.5).judged()
    assert (acceptance.verdict, acceptance.exit_code) == ("accepted", 0)
    assert {each.passed for each in acceptance.criteria} == {True}
    assert acceptance.points[0].runs == ("run-0-0", "run-0-1") == acceptance.criteria[0].runs


@pytest.mark.parametrize(("least", "passed"), [(1024 / 1.005 - 1, True), (1024 / 1.005 + 1, False)])
def test_the_median_over_the_repeats_is_compared_with_a_limit(tmp_path: Path, least: float, passed: bool) -> None:
    case = Case(tmp_path, at_least={"tokens_per_s_per_gpu": least}).whole(1.0, 0.5)
    one = case.one("at_least tokens_per_s_per_gpu")
    assert one.passed is passed
    assert one.measured == pytest.approx(1024 / 1.005, rel=1e-3)  # 8 sequences of 128 tokens
    assert case.judged().exit_code == (0 if passed else 1)


@pytest.mark.parametrize(("most", "passed"), [(1.1, True), (1.0, False)])
def test_a_time_has_an_upper_limit(tmp_path: Path, most: float, passed: bool) -> None:
    assert Case(tmp_path, at_most={"step_time_s": most}).whole(1.0, 0.5).one("at_most step_time_s").passed is passed


def test_a_metric_that_a_run_lacks_gives_no_answer(tmp_path: Path) -> None:
    case = Case(tmp_path, at_most={"peak_memory_gib": 3}).whole(1.0, 0.5)
    assert case.one("at_most peak_memory_gib").passed is None
    assert case.judged().exit_code == 4
    for point in (0, 1):
        case.runs[point].clear()
        case.add(point, memory=2.5).add(point, memory=4.5)
    assert (case.one("at_most peak_memory_gib").measured, case.one("at_most peak_memory_gib").passed) == (3.5, False)


def test_samples_per_second_need_the_batch_of_the_run(tmp_path: Path) -> None:
    one = Case(tmp_path, at_least={"samples_per_s": 7}).whole(1.0, 0.5).one("at_least samples_per_s")
    assert (one.passed, one.measured) == (True, pytest.approx(8 / 1.005, rel=1e-3))


@pytest.mark.parametrize(("step_s", "passed"), [(1.03, True), (1.2, False), (0.5, None)])
def test_the_reference_has_a_tolerance_of_the_plan(tmp_path: Path, step_s: float, passed: bool | None) -> None:
    case = Case(tmp_path, max_below_reference_percent=8).whole(step_s, step_s)
    case.reference = 1.0
    one = case.one("max_below_reference_percent")
    assert one.passed is passed  # twice as fast is not credible
    assert one.measured == pytest.approx(100 * (1 - 1 / (step_s * 1.005)), abs=0.1)
    assert "x:1" in (one.reason or "")


def test_without_a_reference_there_is_no_answer(tmp_path: Path) -> None:
    case = Case(tmp_path, max_below_reference_percent=8).whole(1.0, 1.0)
    assert case.one("max_below_reference_percent").passed is None
    assert case.judged().verdict == "inconclusive"


@pytest.mark.parametrize(("most", "passed"), [(1.5, True), (0.5, False)])
def test_the_spread_is_the_range_of_the_repeats(tmp_path: Path, most: float, passed: bool) -> None:
    one = Case(tmp_path, max_spread_percent=most).whole(1.0, 1.0).one("max_spread_percent")
    assert (one.passed, one.measured) == (passed, pytest.approx(1.0, abs=0.1))


@pytest.mark.parametrize(("seconds", "passed"), [(0.52, True), (0.6, False)])
def test_the_efficiency_is_relative_to_the_fewest_gpus(tmp_path: Path, seconds: float, passed: bool) -> None:
    case = Case(tmp_path, min_scaling_efficiency_percent=90).whole(1.0, seconds)
    one = case.one("min_scaling_efficiency_percent", point=2)
    assert (one.passed, one.measured) == (passed, pytest.approx(100 * 0.5 / seconds, rel=1e-2))
    assert "min_scaling_efficiency_percent" not in {e.criterion for e in case.judged().criteria if e.point == 1}


def test_a_failed_run_counts_even_where_a_retry_measured(tmp_path: Path) -> None:
    case = Case(tmp_path).whole(1.0, 0.5).add(0, ending="failed")
    one = case.one("max_failed_runs")
    assert (one.passed, one.measured) == (False, 1)
    assert case.judged().points[0].other_runs == ("run-0-2",)
    assert case.judged().exit_code == 1
    allowed = Case(tmp_path, max_failed_runs=1).whole(1.0, 0.5).add(0, ending="failed")
    assert allowed.judged().verdict == "accepted"


def test_a_log_that_ends_early_is_a_failed_run(tmp_path: Path) -> None:
    case = Case(tmp_path).whole(1.0, 0.5).add(1, steps=STEPS - 9)
    assert case.one("max_failed_runs", point=2).passed is False


@pytest.mark.parametrize("ending", ["cancelled", "preempted", "requeued"])
def test_a_run_that_somebody_ended_gives_no_answer(tmp_path: Path, ending: str) -> None:
    acceptance = Case(tmp_path).add(0).add(0, ending=ending).add(1).add(1).judged()
    assert (acceptance.verdict, acceptance.exit_code) == ("inconclusive", 4)
    assert [each.passed for each in acceptance.criteria] == [None, True, True, True]


def test_nothing_measured_is_inconclusive_and_a_failed_criterion_counts_more(tmp_path: Path) -> None:
    case = Case(tmp_path, at_most={"step_time_s": 0.1})
    assert case.judged().verdict == "inconclusive"
    assert case.add(0).judged().verdict == "not_accepted"


def test_throttled_runs_are_counted_by_their_telemetry(tmp_path: Path) -> None:
    def sampled(share: float) -> Telemetry:
        fields: dict[str, Any] = dict.fromkeys(Telemetry.model_fields)
        return Telemetry.model_construct(**{**fields, "reasons": {"hw_thermal": share} if share else {}})

    case = Case(tmp_path, max_throttled_runs=0).whole(1.0, 0.5)
    assert case.one("max_throttled_runs").passed is None  # no telemetry
    case.runs[0].clear()
    case.add(0, telemetry=sampled(0)).add(0, telemetry=sampled(0))
    assert case.one("max_throttled_runs").passed is True
    case.add(0, telemetry=sampled(0.2))
    assert (case.one("max_throttled_runs").passed, case.one("max_throttled_runs").measured) == (False, 1)
