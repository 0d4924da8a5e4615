"""A log may state named results beside its steps, or in place of them: a metric reads them, and they are judged."""

from collections.abc import Iterator

import pytest

from benchrun.judge.conditions import conditions
from benchrun.judge.references import Reference, Source
from benchrun.judge.verdict import judge
from benchrun.logs import Log, Rows, Step
from benchrun.measure.metric import Metric
from benchrun.measure.model import Metrics
from benchrun.measure.registry import METRICS, register
from benchrun.measure.setting import Setting, setting_of
from benchrun.measure.summary import measure, summarise
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.show.numbers import metrics_rows
from benchrun.show.terminal import summary_view, verdict_view

SPEC = resolve(Request("llama3.1-8b", "H100", "fp8", 64))
OWN = conditions(SPEC)
RESULTS = {"requests_per_s": 12.0}
SETTING = Setting(gpu="H100", num_gpus=8, precision="fp8")


@pytest.fixture
def metric() -> Iterator[Metric]:
    """A metric that reads a named result."""
    entry = Metric("requests_per_s", "requests/s", "higher", lambda run, _: run.results.get("requests_per_s"))
    register(entry)
    yield entry
    del METRICS[entry.name]


def measured(results: dict[str, float] = RESULTS, **more: object) -> Metrics:
    log = Log("x.log", "megatron-lm", results=results, ended=True, **more)  # type: ignore[arg-type]
    return measure(log, SETTING, planned_steps=None)


def reference(value: float) -> Reference:
    source = Source(who="somebody", where="here", date="2026")
    return Reference(id="x:2", metric="requests_per_s", value=value, better="higher", key=OWN, source=source)


def test_results_are_in_both_documents_and_read_back() -> None:
    found = measured()
    assert found.model_dump(mode="json")["results"] == RESULTS
    assert Metrics.model_validate(found.model_dump(mode="json")) == found
    assert summarise(Log("x.log", "megatron-lm", results=RESULTS)).results == RESULTS
    older = {name: value for name, value in found.model_dump(mode="json").items() if name != "results"}
    assert Metrics.model_validate(older).results == {}


def test_without_steps_there_are_no_flops_and_no_step_time() -> None:
    found = measured()
    assert (found.step_time_s, found.tflops_per_gpu, found.mfu, found.num_steps) == (None, None, (), 0)


@pytest.mark.parametrize(("value", "verdict"), [(12.0, "pass"), (20.0, "slow"), (5.0, "faster_than_expected")])
def test_a_result_is_judged_against_a_reference_row(metric: Metric, value: float, verdict: str) -> None:
    found = judge(OWN, [measured()], [reference(value)])
    assert (found.verdict, found.checks[0].value, found.checks[0].low) == (verdict, 12.0, found.checks[0].high)


def test_of_repeats_the_median_counts_and_the_range_bounds_it(metric: Metric) -> None:
    runs = [measured({"requests_per_s": value}) for value in (11.8, 12.0, 12.4)]
    (check,) = judge(OWN, runs, [reference(12.0)]).checks
    assert (check.value, check.low, check.high) == pytest.approx((12.0, 11.8 / 12, 12.4 / 12))


def test_a_log_with_neither_steps_nor_results_holds_nothing() -> None:
    assert judge(OWN, [measured({})], []).verdict == "invalid_run"
    assert judge(OWN, [measured()], []).verdict == "no_reference"


def test_results_are_shown_without_an_empty_step_time(metric: Metric) -> None:
    rows = dict(metrics_rows(measured()))
    assert rows["requests_per_s"] == "12"
    assert "step time" not in rows
    assert "requests_per_s  12" in summary_view(summarise(Log("x.log", "megatron-lm", results=RESULTS))).plain
    assert "12.0 requests/s" not in verdict_view(judge(OWN, [measured()], []), None).plain


def test_steps_and_results_stand_side_by_side() -> None:
    rows = Rows(Step(step=i, step_time_s=12.5, line=i) for i in range(1, 51))
    found = measure(Log("x.log", "megatron-lm", rows, results=RESULTS), setting_of(SPEC), planned_steps=50)
    assert found.step_time_s is not None
    assert (found.step_time_s.median, found.results) == (12.5, RESULTS)
