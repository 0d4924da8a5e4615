"""A metric is one entry of the registry: it then appears in JSON, every table and the references."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchrun.capabilities.html.steps_plot import plot_steps, series
from benchrun.errors import UserError
from benchrun.judge.conditions import conditions
from benchrun.judge.references import Reference, Source
from benchrun.judge.verdict import RunResult, judge
from benchrun.logs import Log, Rows, Step
from benchrun.measure.metric import Basis, Metric
from benchrun.measure.model import Measurement, Metrics
from benchrun.measure.registry import METRICS, metric, register
from benchrun.measure.rows import completed_rows
from benchrun.measure.setting import Setting, setting_of
from benchrun.measure.summary import measure, summarise
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.show.numbers import metrics_rows
from benchrun.show.runs import points_by_repeats
from benchrun.show.table import as_csv, markdown
from benchrun.show.terminal import summary_view

SPEC = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
LOG = Log("x.log", "megatron-lm", Rows(Step(step=i, step_time_s=12.5, line=i, loss=2.0) for i in range(1, 51)))


def steps_per_hour(run: Measurement, _: Basis) -> float | None:
    return 3600 / run.step_time_s.median if run.step_time_s else None


@pytest.fixture
def toy() -> Iterator[Metric]:
    entry = Metric("steps_per_hour", "steps/h", "higher", steps_per_hour, "steps an hour", ".1f")
    register(entry)
    yield entry
    del METRICS[entry.name]


def measured() -> Metrics:
    return measure(LOG, setting_of(SPEC), planned_steps=50)


def test_a_toy_metric_appears_in_json(toy: Metric) -> None:
    document = measured().model_dump(mode="json")
    assert document["metrics"]["steps_per_hour"] == 288.0
    assert summarise(LOG).model_dump(mode="json")["metrics"]["steps_per_hour"] == 288.0
    assert Metrics.model_validate(document) == measured()  # what follows from the fields is not read back


def test_a_toy_metric_appears_in_every_table(toy: Metric) -> None:
    runs = points_by_repeats([RunResult("x", SPEC, measured(), None)])
    (row,) = csv.DictReader(io.StringIO(as_csv(runs)))
    assert row["steps_per_hour"] == "288.0"
    assert runs.records()[0]["steps_per_hour"] == 288.0
    assert "| steps_per_hour |" in markdown(runs)
    assert ("steps an hour", "288.0") in metrics_rows(measured())
    assert "steps an hour" in summary_view(summarise(LOG)).plain


def test_a_toy_metric_is_drawn(toy: Metric, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = completed_rows(LOG, Setting())
    assert list(series(toy, rows, summarise(LOG))) == [288.0] * 50
    plot_steps(rows, summarise(LOG), tmp_path / "x.png", toy.name)
    assert (tmp_path / "x.png").stat().st_size > 1000
    with pytest.raises(UserError, match="fsdp_over_3d"):
        plot_steps(rows, summarise(LOG), tmp_path / "y.png", "fsdp_over_3d")


def test_tflops_and_mfu_of_a_row_follow_from_its_rate() -> None:
    setting = setting_of(SPEC)
    summary = summarise(LOG, given=setting)
    for name in ("tflops_per_gpu", "mfu_percent", "step_time_s", "tokens_per_s_per_gpu"):
        values = series(metric(name), completed_rows(LOG, setting), summary)
        assert values == pytest.approx(METRICS[name].read(summary, Basis()))


def test_a_run_is_judged_by_a_published_toy_metric(toy: Metric) -> None:
    source = Source(who="somebody", where="here", date="2026")
    key = conditions(SPEC)
    entry = Reference(id="x:2", metric=toy.name, value=300, better="higher", key=key, source=source)
    verdict = judge(key, [measured()], [entry])
    assert (verdict.verdict, verdict.checks[0].reference.unit) == ("pass", "steps/h")
    assert (verdict.checks[0].value, verdict.checks[0].ratio) == pytest.approx((288.0, 0.96))


def test_a_reference_without_a_value_of_the_run_does_not_judge_it() -> None:
    entry = Metric("steps_per_day", "steps/day", "higher", lambda *_: None)
    register(entry)
    try:
        source = Source(who="somebody", where="here", date="2026")
        key = conditions(SPEC)
        alone = Reference(id="x:2", metric=entry.name, value=1e9, better="higher", key=key, source=source)
        verdict = judge(key, [measured()], [alone])
        assert (verdict.verdict, verdict.nearest, verdict.differs) == ("not_comparable", alone, ())
        timed = alone.model_copy(update={"id": "x:3", "metric": "step_time_s", "value": 12.5, "better": "lower"})
        verdict = judge(key, [measured()], [alone, timed])
        assert (verdict.verdict, verdict.checks[0].reference) == ("pass", timed)
    finally:
        del METRICS[entry.name]


def test_an_entry_is_registered_once(toy: Metric) -> None:
    with pytest.raises(ValueError, match="registered already"):
        register(toy)


def test_an_unknown_metric_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UserError) as refused:
        metric("steps_per_day")
    assert "step_time_s" in (refused.value.hint or "")


def test_what_no_version_wrote_is_still_refused() -> None:
    document = measured().model_dump(mode="json")
    with pytest.raises(ValueError, match="Extra inputs"):
        Metrics.model_validate({**document, "speed": 1})
