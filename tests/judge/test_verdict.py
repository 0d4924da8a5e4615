"""What is compared, what is refused, and what a verdict says."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchrun.cli.logs import print_results
from benchrun.errors import UserError
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references
from benchrun.judge.references import load_references as load
from benchrun.judge.verdict import Verdict, judge
from benchrun.logs import Log, Problem, Rows, Step
from benchrun.measure.model import Metrics
from benchrun.measure.setting import setting_of
from benchrun.measure.summary import measure
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.show.runs import check_rows
from benchrun.show.terminal import verdict_view

STEPS = 50


def run(
    spec: TrainingSpec,
    step_time_s: float,
    *,
    steps: int = STEPS,
    jitter: float = 0.0,
    problems: tuple[Problem, ...] = (),
    loss: float = 2.0,
    every: int = 1,
    warmup: int | None = None,
    average: bool = False,
) -> Metrics:
    """Metrics of a run that took ``step_time_s`` a step, with a wobble, and printed every so many steps."""
    rows = Rows(
        Step(step=i, step_time_s=step_time_s * (1 + jitter * (i % 3 - 1)), line=i, loss=loss, interval=every)
        for i in range(every, steps + 1, every)
    )
    return measure(
        Log("x.log", "megatron-lm", rows, problems=problems, only_average=average),
        setting_of(spec),
        planned_steps=STEPS,
        warmup=warmup,
    )


def llama(gpus: int = 64, precision: str = "fp8", *overrides: str, **update: int) -> RunSpec:
    spec = resolve(Request("llama3.1-8b", "H100", precision, gpus, overrides=overrides))
    return spec.model_copy(update=update)


def verdict(spec: TrainingSpec, *metrics: Metrics, ending: str | None = None) -> Verdict:
    return judge(conditions(spec), metrics, load_references(), ending=ending)


def published(spec: TrainingSpec) -> float:
    """The step time that the chosen reference of a spec means."""
    entry = verdict(spec, run(spec, 10.0)).checks[0].reference
    if entry.metric == "step_time_s":
        return entry.value
    return spec.gbs * spec.seq_length / spec.num_gpus / entry.value


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("gpus", [8, 16, 32, 64, 128])
class TestEveryPublishedPoint:
    """Llama 3.1 8B on H100, each published scale."""

    def test_the_published_time_passes(self, gpus: int, precision: str) -> None:
        spec = llama(gpus, precision)
        found = verdict(spec, run(spec, published(spec)))
        assert (found.verdict, found.exit_code) == ("pass", 0)
        assert found.checks[0].reference.source.where

    def test_ten_percent_slower_is_slow(self, gpus: int, precision: str) -> None:
        spec = llama(gpus, precision)
        found = verdict(spec, run(spec, 1.1 * published(spec)))
        assert (found.verdict, found.exit_code) == ("slow", 1)

    def test_thirty_percent_faster_needs_a_look(self, gpus: int, precision: str) -> None:
        spec = llama(gpus, precision)
        found = verdict(spec, run(spec, published(spec) / 1.3))
        assert (found.verdict, found.exit_code) == ("faster_than_expected", 4)

    def test_another_sequence_length_is_not_comparable_and_named(self, gpus: int, precision: str) -> None:
        spec = llama(gpus, precision, seq_length=2048)
        found = verdict(spec, run(spec, published(llama(gpus, precision)) / 4))
        assert (found.verdict, found.exit_code) == ("not_comparable", 4)
        assert [(d.key, d.theirs, d.ours) for d in found.differs] == [("seq_length", 8192, 2048)]


@pytest.mark.parametrize(("times", "slow"), [((1.1,), True), ((2.0,), True), ((1.1, 1.12), True), ((1.01,), False)])
def test_a_number_of_which_its_publisher_warns_fails_no_run(times: tuple[float, ...], slow: bool) -> None:
    spec = llama()
    number = published(spec)
    (entry,) = {check.reference for check in verdict(spec, run(spec, number)).checks}
    warned = entry.model_copy(update={"flags": ("warned",), "notes": "NVIDIA: not final"})
    runs = [run(spec, share * number) for share in times]
    found = judge(conditions(spec), runs, [warned])
    assert judge(conditions(spec), runs, [entry]).verdict == ("slow" if slow else "pass")
    assert found.verdict == ("inconclusive" if slow else "pass")
    assert ("NVIDIA: not final" in found.reason) == slow
    assert found.checks[0].reference.flags == ("warned",)


def test_fewer_layers_are_never_compared_with_the_whole_model() -> None:
    spec = llama(64, "fp8", "model.num_layers=4")
    found = verdict(spec, run(spec, 2.0))
    assert found.verdict == "not_comparable"
    assert ("num_layers", 32, 4) in [(d.key, d.theirs, d.ours) for d in found.differs]


def test_another_layout_is_compared_and_named() -> None:
    spec = llama(8, "fp8", "layout.cp=1")
    found = verdict(spec, run(spec, published(llama(8, "fp8"))))
    assert found.verdict == "pass"
    assert "framework" in {d.key for d in found.checks[0].differs}


@pytest.mark.parametrize(
    ("precision", "override", "said"),
    [
        ("fp8", "training.cuda_graphs=layers", "cuda_graphs=layers"),
        ("fp8", "training.fp8.dot_product_attention=true", "fp8.dot_product_attention=true"),
        ("bf16", "training.fp8.dot_product_attention=true", "the defaults"),
        ("bf16", "training.transformer_impl=local", "transformer_impl=local"),
        (
            "bf16",
            "training.recompute={granularity: selective, modules: [core_attn, mlp]}",
            "recompute.granularity=selective, recompute.modules=core_attn+mlp",
        ),
        ("bf16", "training.lr=1e-3", "the defaults"),
    ],
)
def test_options_of_training_are_a_condition(precision: str, override: str, said: str) -> None:
    found = conditions(resolve(Request("llama2-7b", "H200", precision, 8, "megatron-core", overrides=(override,))))
    assert found.model_dump(mode="json")["options"] == said


def test_nothing_published_is_no_reference() -> None:
    spec = resolve(Request("llama3.1-8b", "H200", "fp8", 8))
    assert verdict(spec, run(spec, 9.0)).verdict == "no_reference"


class TestSanityBeforePerformance:
    """A broken run never yields a number."""

    def check(self, *metrics: Any, ending: Any = None, says: Any) -> None:
        found = verdict(llama(), *metrics, ending=ending)
        assert (found.verdict, found.exit_code, found.checks) == ("invalid_run", 4, ())
        assert says in found.reason

    def test_a_failed_job(self) -> None:
        self.check(run(llama(), 9.8), ending="timeout", says="timeout")

    def test_missing_steps(self) -> None:
        self.check(run(llama(), 9.8, steps=49), says="only 49 of 50 steps")

    def test_steps_are_counted_and_not_rows(self) -> None:
        self.check(run(llama(), 9.8, steps=40, every=5), says="only 40 of 50 steps")

    def test_rows_that_were_all_dropped(self) -> None:
        self.check(run(llama(), 9.8, warmup=99), says="all 50 rows were dropped as warm-up")

    def test_a_loss_that_is_no_number(self) -> None:
        self.check(run(llama(), 9.8, problems=(Problem("nan_loss", 7, "step 7"),)), says="nan_loss")

    def test_one_broken_repeat_of_three(self) -> None:
        self.check(run(llama(), 9.8), run(llama(), 9.8), run(llama(), 9.8, steps=3), says="only 3 of 50 steps")

    def test_a_speed_that_no_gpu_has_where_nothing_was_published(self) -> None:
        found = judge(conditions(llama()), [run(llama(), 1.0)], ())
        assert (found.verdict, found.exit_code, found.checks) == ("invalid_run", 4, ())
        assert "impossible_rate" in found.reason

    def test_nothing_at_all(self) -> None:
        self.check(says="nothing was measured")


class TestBeyondThePeak:
    """Faster than the GPU can be is faster than any reference: a verdict that needs a look, and never a number."""

    def test_is_faster_than_expected_and_said_not_to_be_believed(self) -> None:
        found = verdict(llama(), run(llama(), 1.0))
        assert (found.verdict, found.exit_code, found.checks) == ("faster_than_expected", 4, ())
        assert "not credible: the speed is above the GPU's peak" in found.reason
        assert found.nearest.key.recipe == "llama3.1-8b"
        assert run(llama(), 1.0).step_time_s is None

    def test_under_other_conditions_than_any_that_were_published_the_keys_are_named_too(self) -> None:
        spec = llama(96)
        found = verdict(spec, run(spec, 1.0))
        assert (found.verdict, found.exit_code, found.checks) == ("not_comparable", 4, ())
        assert "num_gpus" in [difference.key for difference in found.differs]
        assert "not credible: the speed is above the GPU's peak" in found.reason

    def test_one_of_three_repeats_is_enough(self) -> None:
        found = verdict(llama(), run(llama(), 9.8), run(llama(), 9.8), run(llama(), 1.0))
        assert (found.verdict, found.checks) == ("faster_than_expected", ())

    def test_whatever_else_is_wrong_is_said_first(self) -> None:
        found = verdict(llama(), run(llama(), 1.0, problems=(Problem("nan_loss", 7, "step 7"),)))
        assert (found.verdict, "nan_loss" in found.reason) == ("invalid_run", True)


class TestNoise:
    """A verdict knows how sure it is."""

    def test_a_spread_over_the_edge_is_inconclusive(self) -> None:
        spec = llama()
        found = verdict(spec, run(spec, published(spec) / 0.951, jitter=0.05))
        assert (found.verdict, found.exit_code) == ("inconclusive", 4)
        assert "--repeats" in found.reason

    def test_a_single_step_is_inconclusive_however_fast_and_repeats_of_it_are_not(self) -> None:
        spec = llama()
        one = run(spec, published(spec), warmup=STEPS - 1)
        found = verdict(spec, one)
        assert (found.verdict, found.exit_code) == ("inconclusive", 4)
        assert "a single step was timed" in found.reason
        assert verdict(spec, one, one, one).verdict == "pass"

    def test_repeats_on_both_sides_are_inconclusive(self) -> None:
        spec = llama()
        found = verdict(spec, run(spec, published(spec)), run(spec, 1.2 * published(spec)))
        assert found.verdict == "inconclusive"
        assert found.runs == 2
        assert "find out why they differ" in found.reason  # another repeat would say the same

    def test_steady_repeats_are_not(self) -> None:
        spec = llama()
        assert verdict(spec, *[run(spec, 1.2 * published(spec))] * 3).verdict == "slow"

    @pytest.mark.parametrize("repeats", [1, 3])
    def test_a_mean_with_start_up_in_it_says_only_how_slow_it_was_at_most(self, repeats: int) -> None:
        spec = llama()
        found = verdict(spec, *[run(spec, 1.3 * published(spec), average=True)] * repeats)
        assert (found.verdict, found.checks[0].high) == ("inconclusive", None)
        assert "or faster: the log has only the mean" in found.reason
        json.dumps(found.model_dump(mode="json"), allow_nan=False)


def test_of_repeats_it_is_said_whose_numbers_are_shown() -> None:
    spec = llama()
    one, two = run(spec, published(spec)), run(spec, 1.01 * published(spec))
    assert (
        "2 runs were judged together; below are the numbers of the first"
        in verdict_view(verdict(spec, one, two), one).plain
    )
    assert "judged together" not in verdict_view(verdict(spec, one), one).plain


def test_a_window_without_a_row_is_said_to_be_none() -> None:
    dropped = run(llama(), 9.8, warmup=99)
    assert "none: all 50 rows were dropped as warm-up" in verdict_view(verdict(llama(), dropped), dropped).plain
    impossible = run(llama(), 1.0)
    assert "warm-up" not in verdict_view(verdict(llama(), impossible), impossible).plain


class TestLoss:
    """Where a loss is known, a run must reach it."""

    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1))
    known = next(e for e in load_references() if e.key.recipe == "tiny-llama")

    def judged(self, loss: Any, **update: Any) -> Any:
        spec = self.spec.model_copy(update=update)
        return verdict(spec, run(spec, 0.1, loss=loss))

    def test_the_known_loss_passes(self) -> None:
        assert self.judged(self.known.value).verdict == "pass"

    def test_another_loss_is_another_computation(self) -> None:
        found = self.judged(self.known.value * 1.02)
        assert found.verdict == "invalid_run"
        assert "computed something else" in found.reason

    def test_a_run_of_another_length_has_no_known_loss(self) -> None:
        longer = self.spec.training.model_copy(update={"steps": 60})
        assert self.judged(9.9, training=longer).verdict == "no_reference"


def test_of_several_verdicts_one_slow_one_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    slow, unknown = verdict(llama(), run(llama(), 12.0)), verdict(llama(96), run(llama(96), 10.0))
    assert (slow.exit_code, unknown.exit_code) == (1, 4)
    assert print_results([(slow, None, None), (unknown, None, None)], as_json=True, several=True) == 1
    assert print_results([(unknown, None, None)], as_json=True) == 4


def test_every_entry_has_an_id_of_its_own_a_unit_and_a_source() -> None:
    entries = load_references()
    assert len({entry.id for entry in entries}) == len(entries) > 30
    assert all(entry.unit and entry.source.who and entry.source.where and entry.source.date for entry in entries)


def test_a_row_that_is_no_entry_is_named_with_its_line(tmp_path: Path) -> None:
    header = "metric,value,recipe,task,gpu,num_gpus,precision,num_layers,seq_length,gbs,who,where,date\n"
    good = "step_time_s,9.8,x,pretrain,H100,8,fp8,32,8192,128,me,here,2026-01\n"
    (tmp_path / "x.csv").write_text(header + good + good.replace("9.8", "fast"))
    with pytest.raises(UserError) as error:
        load(tmp_path)
    assert error.value.where.endswith("x.csv:3")
    assert "value" in str(error.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(16086.4, "16086"), (744.4, "744.4"), (9.347, "9.347"), (0.08244, "0.08244"), (1234567.0, "1234567")],
)
def test_a_compared_number_has_as_many_digits_as_the_step_time(value: float, shown: str) -> None:
    spec = llama(8, "bf16")
    check = verdict(spec, run(spec, published(spec))).checks[0].model_copy(update={"value": value})
    (name, text), (_, where), *_ = check_rows(check)
    assert (name, text.startswith(f"{shown} {check.reference.unit}, reference ")) == ("compared", True)
    assert where.startswith(check.reference.source.who)
