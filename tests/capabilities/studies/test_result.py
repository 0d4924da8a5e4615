"""Ratios with intervals, and the sentences that the numbers support."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchrun.capabilities.studies.cost import hours
from benchrun.capabilities.studies.resolved import ResolvedStudy, resolved_study
from benchrun.capabilities.studies.result import StudyResult, result
from benchrun.capabilities.studies.schedule import Attempt, PointState
from benchrun.capabilities.studies.view import missing, planned_line, remarks, sentences, study_page, study_table
from benchrun.jobs.endings import Ending
from benchrun.judge.difference import ratio_interval
from benchrun.judge.ratio import ratio
from benchrun.judge.verdict import RunResult
from benchrun.logs import Log, Rows, Step
from benchrun.measure.model import Metrics
from benchrun.measure.setting import setting_of
from benchrun.measure.statistics import Floats, warmup_rows
from benchrun.measure.summary import measure
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.recipes.study import expand
from benchrun.rundir.artifacts import Done

SPEC = resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=("training.steps=50",)))


def drawn_times(step_s: float, spread: float, seed: int, steps: int) -> Floats:
    """Steps with a median near ``step_s``."""
    return step_s * (1 + spread * np.random.default_rng(seed).standard_normal(steps))


def numbers(
    step_s: float, memory: float | None = None, spread: float = 0.01, seed: int = 0, steps: int = 50
) -> Metrics:
    """What a run with a median near ``step_s`` measures."""
    times = drawn_times(step_s, spread, seed, steps)
    rows = Rows(Step(step=i, step_time_s=float(t), line=i, loss=2.0) for i, t in enumerate(times, start=1))
    log = Log(file="x.log", framework="megatron-core", steps=rows)
    log.facts.peak_memory_gib = memory
    return measure(log, setting_of(SPEC), planned_steps=steps)


def test_the_ratio_is_that_of_the_rates_and_lies_in_its_interval() -> None:
    found = ratio([numbers(1.0)], [numbers(2.0, seed=1)])
    assert found is not None and found.low is not None and found.high is not None
    assert found.value == pytest.approx(2.0, rel=0.02)
    assert found.low < found.value < found.high
    assert found.clear


def test_the_other_way_round_is_the_inverse() -> None:
    one, other = [numbers(1.0)], [numbers(1.5, seed=1)]
    there, back = ratio(one, other), ratio(other, one)
    assert there and back and there.low and there.high and back.low and back.high
    assert there.value * back.value == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.high * back.low == pytest.approx(1)


def test_the_interval_holds_1_for_equal_work_in_most_cases() -> None:
    found = [ratio([numbers(1.0, seed=n)], [numbers(1.0, seed=n + 500)]) for n in range(60)]
    assert sum(not each.clear for each in found if each) >= 54


def test_repeats_count_as_one_value_each() -> None:
    """By Student's t of two degrees of freedom; the range of three runs would hold the median in 75 % of all cases."""
    times = [1.0, 1.1, 1.05]
    found = ratio([numbers(time, spread=0.0) for time in times], [numbers(1.05, spread=0.0)])
    half = 4.303 * np.std(np.log(times), ddof=1) / 3**0.5
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert (found.low, found.high) == (pytest.approx(np.exp(-half), 1e-4), pytest.approx(np.exp(half), 1e-4))


@pytest.mark.parametrize("repeats", [(2, 2), pytest.param((3, 3), marks=pytest.mark.thorough), (1, 3)])
def test_intervals_of_repeats_hold_the_true_ratio(repeats: tuple[int, int]) -> None:
    """Runs differ by 2 % beside their steps; a single run cannot show that, and holds the ratio less often."""
    random, held = np.random.default_rng(3), 0
    for draw in range(100):
        apart = np.exp(0.02 * random.standard_normal(sum(repeats)))
        own, others = (
            [numbers(float(time), seed=1000 * draw + n) for n, time in enumerate(each)]
            for each in (apart[: repeats[0]], apart[repeats[0] :])
        )
        found = ratio(own, others)
        assert found and found.low and found.high
        held += found.low <= 1 <= found.high
    assert (held / 100 > 0.92) is (1 not in repeats)


@pytest.mark.parametrize(("steps", "spread"), [(11, 0.02), (50, 0.01), (12, 0.1)])
def test_one_pair_of_runs_has_one_interval(steps: int, spread: float) -> None:
    """`diff` reads the steps, a study what `measure` found in them."""
    one, other = (numbers(1.0 + 0.1 * seed, spread=spread, seed=seed, steps=steps) for seed in (0, 1))
    times = [drawn_times(1.0 + 0.1 * seed, spread, seed, steps)[warmup_rows(steps) :] for seed in (0, 1)]
    found, (read, _) = ratio([other], [one]), ratio_interval(times[1], times[0])
    assert found and read and found.low
    assert found.low / found.value == pytest.approx(read.low / (np.median(times[0]) / np.median(times[1])))
    assert found.high / found.value == pytest.approx(read.high / (np.median(times[0]) / np.median(times[1])))


def test_without_a_speed_there_is_no_ratio() -> None:
    empty = measure(Log("x.log", "megatron-core", Rows()), setting_of(SPEC), planned_steps=50)
    assert ratio([], [numbers(1.0)]) is None
    assert ratio([empty], [numbers(1.0)]) is None


@pytest.fixture
def planned(tmp_path: Path) -> ResolvedStudy:
    path = tmp_path / "mine.yaml"
    runs = [{"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1}]
    path.write_text(json.dumps({"description": "Mine", "runs": runs, "matrix": {"mbs": [1, 2, 3, 4, 8]}}))
    return resolved_study(expand(Request(str(path))))


def study(planned: ResolvedStudy, *of_points: Any, retries: int = 0) -> StudyResult:
    """The result where the legal points measured this: metrics, an ending, or None for a point that is not launched."""
    attempts, runs = {}, {}
    for point, found in zip(planned.legal, of_points, strict=False):
        if found is None:
            continue
        ending = found if isinstance(found, Ending) else Ending.COMPLETED
        state = PointState.COMPLETED if ending is Ending.COMPLETED else PointState.FAILED
        attempts[point.key, 1] = [Attempt(state, ending)]
        metrics = None if isinstance(found, Ending) else found
        runs[point.key] = [RunResult(f"run-{point.key}", SPEC, metrics, None, ending.value)]
    return result(planned, "x.study", 2.0, attempts, runs, retries)


def test_a_point_has_its_state_its_numbers_and_its_reason(planned: ResolvedStudy) -> None:
    found = study(planned, numbers(1.0, 10.0), numbers(0.5, 20.0), Ending.OUT_OF_MEMORY_GPU, None)
    assert [point.state.value for point in found.points] == ["completed", "completed", "refused", "failed", "waiting"]
    assert [point.measured for point in found.points] == [1, 1, 0, 0, 0]
    assert found.points[0].ratio is None
    assert found.points[1].ratio and found.points[1].ratio.value == pytest.approx(2, rel=0.02)
    assert "multiple of mbs" in (found.points[2].reason or "")
    assert "out_of_memory_gpu" in (found.points[3].reason or "")
    assert not found.complete
    assert list(missing(found)) == [f"point 4: {found.points[3].reason}"]


def test_a_failed_run_waits_where_it_may_be_retried(planned: ResolvedStudy) -> None:
    found = study(planned, numbers(1.0), Ending.NODE_FAILURE, retries=1)
    assert found.points[1].state is PointState.WAITING


def test_the_points_that_were_measured_once_are_named(planned: ResolvedStudy) -> None:
    point = planned.legal[0]
    runs = [RunResult(f"run-{seed}", SPEC, numbers(1.0, seed=seed), None, "completed") for seed in range(4)]
    keys = [each.key for each in planned.legal]
    attempts = {(key, 1): [Attempt(PointState.COMPLETED, Ending.COMPLETED)] for key in keys[:2]}
    of_points = {point.key: runs[:1], keys[1]: runs[1:3]}
    (line,) = remarks(result(planned, "", None, attempts, of_points))
    assert "Point 1 of" in line
    assert not [*remarks(result(planned, "", None, attempts, {point.key: runs[:2], keys[1]: runs[2:]}))]


def test_sentences_say_no_more_than_the_interval(planned: ResolvedStudy) -> None:
    found = study(planned, numbers(1.0, 10.0), numbers(0.5, 20.0, seed=1), numbers(1.0, 10.0, seed=0), numbers(1.3))
    faster, same, slower = sentences(found)
    assert re.fullmatch(r"mbs 2: \d+\.\d % faster than 1 \(ratio .*\); peak memory 20 GiB, not 10\.", faster)
    assert same.startswith("mbs 4: no clear difference in speed from 1 (ratio 1.000")
    assert re.match(r"mbs 8: 2\d\.\d % slower than 1", slower)


def test_a_broken_run_gives_no_number(planned: ResolvedStudy) -> None:
    short = numbers(1.0).model_copy(update={"complete": False, "planned_steps": 60})
    found = study(planned, numbers(1.0), short)
    assert found.points[1].measured == 0
    assert "only 50 of 60 steps ran" in (found.points[1].reason or "")


def test_hours_and_cost_are_those_of_all_runs(planned: ResolvedStudy) -> None:
    found = study(planned)
    assert found.gpu_hours_limit == pytest.approx(4 * 10 / 60)
    assert found.gpu_hours_steps is None
    assert "4 runs take at most 0.667 GPU-hours by their time limits (cost 1.333 at 2 per GPU-hour)." in planned_line(
        found
    )


def test_used_hours_are_those_of_the_runs_so_far(planned: ResolvedStudy) -> None:
    key = planned.points[0].key
    found = result(planned, "", 2.0, {}, {}, used={key: 1.5})
    assert (found.points[0].gpu_hours_used, found.points[1].gpu_hours_used, found.gpu_hours_used) == (1.5, None, 1.5)
    assert "used so far: 1.5 GPU-hours (cost 3 " in planned_line(found)
    assert "used" not in planned_line(result(planned, "", None, {}, {}))


@pytest.mark.parametrize(
    ("started", "ended", "seconds"),
    [("2026-01-01T23:59:00Z", "2026-01-02T00:01:00Z", 120.0), ("", "2026-01-02T00:01:00Z", None), ("x", "y", None)],
)
def test_a_job_took_from_its_start_to_its_end(started: str, ended: str, seconds: float | None) -> None:
    assert Done(exit_code=0, started=started, ended=ended).elapsed_s == seconds


def test_known_steps_give_hours_with_the_reference_that_they_rest_on() -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "fp8", 64, "nemo2"))
    found = hours(spec)
    assert found.basis and found.basis.startswith("llama3.1-8b")
    assert found.limit == 64 * 0.5
    assert found.steps and 0 < found.steps < found.limit


def test_the_table_is_the_same_in_every_form(planned: ResolvedStudy) -> None:
    found = study(planned, numbers(1.0, 10.0), numbers(0.5, 20.0))
    rows = study_table(found).records()
    csv = study_page(found, "csv").splitlines()
    assert len(csv) == 1 + len(rows) == 6
    assert csv[0].split(",")[:4] == ["point", "mbs", "state", "runs"]
    markdown = study_page(found, "markdown")
    assert markdown.startswith("# mine\n\nMine. 4 runs")
    assert all(f"- {line}\n" in markdown for line in sentences(found))
    assert markdown.count("Each point was measured once") == 1
    assert StudyResult.model_validate_json(found.model_dump_json()) == found
