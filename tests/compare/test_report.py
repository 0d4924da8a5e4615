"""The table of all runs: what is one row, and whose speed stands in it."""

from __future__ import annotations

import dataclasses

import pytest

from benchrun.compare import conditions, judge
from benchrun.metrics.measure import measure
from benchrun.parse import Log, Rows, Step
from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request
from benchrun.report.markdown import run_page
from benchrun.report.runs import RunResult, frame

SPEC = resolve(Request("llama3.1-8b", "H100", "fp8", 64))


def result(step_time_s, ending="completed", spec=SPEC):
    rows = Rows(Step(step=i, step_time_s=step_time_s, line=i, loss=2.0) for i in range(1, 51))
    model = {key: getattr(spec, key) for key in ("model", "seq_length", "gbs", "num_gpus", "gpu", "precision")}
    metrics = measure(Log("x.log", "megatron-lm", rows), planned_steps=50, **model)
    return RunResult("x", spec, metrics, judge(conditions(spec), [metrics], (), ending=ending))


def test_repeats_are_one_row_with_their_median_and_range():
    table = frame([result(10.0), result(10.2), result(10.1)])
    assert len(table) == 1
    assert (table.runs[0], table.step_time_s[0]) == (3, 10.1)
    assert table.spread_pct[0] == pytest.approx(100 * 0.2 / 10.1, abs=1e-3)


def test_one_run_has_no_range():
    assert frame([result(10.0)]).spread_pct.isna().all()


def test_an_invalid_run_is_counted_and_its_speed_is_not():
    table = frame([result(10.0), result(9.0, ending="failed")])
    assert (table.runs[0], table.step_time_s[0]) == (2, 10.0)
    assert "invalid_run" in table.verdict[0]


def test_the_same_point_on_two_clusters_is_two_rows():
    other = SPEC.model_copy(update={"cluster": SPEC.cluster.model_copy(update={"name": "other"})})
    assert list(frame([result(10.0), result(12.0, spec=other)]).step_time_s) == [10.0, 12.0]


@pytest.mark.parametrize("ending", ["failed", "out_of_memory_host", "cancelled"])
def test_a_run_that_broke_and_was_not_judged_is_counted_and_its_speed_is_not(ending):
    broken = dataclasses.replace(result(9.0), verdict=None, ending=ending)
    table = frame([result(10.0), broken])
    assert (table.runs[0], table.step_time_s[0]) == (2, 10.0)
    assert ending in table.verdict[0]
    assert "step time" not in run_page(broken)
    assert ending in run_page(broken)
