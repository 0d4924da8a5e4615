"""Every published point, judged: the published time passes, a slower one is slow, another condition is named."""

import functools
from operator import attrgetter
from typing import Any

import pytest
from selection import some

from benchrun.judge.choice import choose, usable
from benchrun.judge.conditions import HARD
from benchrun.judge.references import Reference, load_references, matching
from benchrun.judge.verdict import Verdict, judge
from benchrun.logs import Log, Rows, Step
from benchrun.measure.model import Metrics
from benchrun.measure.setting import Setting
from benchrun.measure.summary import measure
from benchrun.model.flops import flops_per_token
from tests.judge.recount import model_of

must_agree = attrgetter(*HARD)
ENTRIES = [entry for entry in load_references() if entry.metric != "final_loss"]
POINTS = [entry for entry in ENTRIES if usable(entry) and None not in must_agree(entry.key)]
RECIPES = sorted({entry.key.recipe for entry in POINTS})
STEPS = 12
REPEATED = 0.05
"""So far apart are numbers that say the same of themselves: the fastest of them is chosen."""


def of(recipe: str) -> list[Reference]:
    return [entry for entry in POINTS if entry.key.recipe == recipe]


def run(entry: Reference, step_time_s: float) -> Metrics:
    """Metrics of a steady run under an entry's own conditions."""
    key = entry.key
    rows = Rows(Step(step=i, step_time_s=step_time_s, line=i, loss=2.0) for i in range(1, STEPS + 1))
    return measure(
        Log("x.log", "megatron-lm", rows),
        Setting(key.seq_length, key.gbs, key.num_gpus, key.gpu, key.precision, model_of(entry), key.task),
        planned_steps=STEPS,
    )


def published_time(entry: Reference) -> float:
    """The step time that an entry means, by its own metric and convention."""
    key = entry.key
    tokens = key.gbs * key.seq_length / key.num_gpus
    if entry.metric == "step_time_s":
        return entry.value
    if entry.metric == "tokens_per_s_per_gpu":
        return tokens / entry.value
    if entry.metric == "samples_per_s":
        return key.gbs / entry.value
    flops = getattr(flops_per_token(model_of(entry), key.seq_length), entry.convention)
    tflops = entry.value if entry.metric == "tflops_per_gpu" else entry.value / 100 * entry.peak_tflops
    return tokens * flops / (1e12 * tflops)


@functools.cache
def chosen(entry: Any) -> Any:
    """The entry that a run under the conditions of ``entry`` is held against."""
    return choose(matching(entry.key, ENTRIES), entry.key)


def verdict(entry: Reference, step_time_s: float, **ours: int) -> Verdict:
    return judge(entry.key.model_copy(update=ours), [run(entry, step_time_s)], ENTRIES)


def test_hundreds_of_points_can_be_judged() -> None:
    assert len(POINTS) > 500
    assert len({must_agree(entry.key) for entry in POINTS}) > 250


@pytest.mark.parametrize("recipe", some(RECIPES, 12))
class TestEveryPoint:
    """A run under all the conditions of a published number, version and layout too, is held against that number."""

    def test_the_published_time_passes(self, recipe: str) -> None:
        for entry in of(recipe):
            found = verdict(entry, published_time(entry))
            (check,) = found.checks
            assert (found.verdict, check.reference, check.differs) == ("pass", chosen(entry), ()), entry.id
            assert check.ratio == pytest.approx(1, rel=1e-6 if chosen(entry) == entry else REPEATED), entry.id

    def test_ten_percent_slower_is_slow(self, recipe: str) -> None:
        for entry in of(recipe):
            assert verdict(entry, 1.1 * published_time(entry)).verdict == "slow", entry.id

    def test_thirty_percent_faster_needs_a_look(self, recipe: str) -> None:
        for entry in of(recipe):
            faster = "pass" if "floor" in entry.flags else "faster_than_expected"
            assert verdict(entry, published_time(entry) / 1.3).verdict == faster, entry.id

    def test_another_sequence_length_is_not_comparable_and_named(self, recipe: str) -> None:
        for entry in of(recipe):
            found = verdict(entry, published_time(entry), seq_length=entry.key.seq_length + 64)
            assert found.verdict == "not_comparable", entry.id
            theirs = {d.key: d.theirs for d in found.differs}
            assert list(theirs) == ["seq_length"] and str(theirs["seq_length"]) in found.reason


class TestWhichEntry:
    """Several published numbers match: the same framework, version and variant, then no flag, then the newest."""

    def test_a_published_number_is_its_own_reference(self) -> None:
        """Or another one stands there that says the same of itself: a repeat."""
        others = [entry for entry in POINTS if chosen(entry) != entry]
        assert len(others) < 20
        for entry in others:
            said = {key: value for key, value in entry.key if value is not None}
            assert said.items() <= dict(chosen(entry).key).items(), entry.id

    def test_the_release_of_an_image_is_that_of_a_version(self) -> None:
        ours = entry_of(1, key={"framework": "nemo1", "image": "registry.example/nemo:24.01.01"}).key
        old = entry_of(10, key={"framework": "nemo1", "framework_version": "NeMo container 24.01"}, date="2024-02")
        new = entry_of(11, key={"framework": "nemo1", "image": "nvcr.io/nvidia/nemo:24.07"}, date="2024-08")
        assert choose([old, new], ours) == choose([new, old], ours) == old

    def test_a_variant_is_used_for_a_run_that_names_it_only(self) -> None:
        plain, variant = entry_of(10, date="2024-01"), entry_of(12, key={"variant": "eager"}, date="2024-02")
        assert choose([plain, variant], plain.key) == plain
        assert choose([plain, variant], variant.key) == variant
        assert choose([variant], plain.key) == variant

    def test_a_run_like_a_published_one_is_held_against_that_framework_and_image(self) -> None:
        for entry in POINTS:
            for name in ("framework", "image"):
                if getattr(entry.key, name) is not None:
                    assert getattr(chosen(entry).key, name) == getattr(entry.key, name), entry.id

    def test_what_no_flag_hangs_on_is_never_left_for_what_one_does(self) -> None:
        clean = [entry for entry in POINTS if not set(entry.flags) - {"proxy"}]
        assert len(clean) > 350
        assert all(not set(chosen(entry).flags) - {"proxy"} for entry in clean)

    @pytest.mark.parametrize("flag", ["misprint", "revised"])
    def test_what_its_own_source_contradicts_is_never_used(self, flag: str) -> None:
        wrong = [entry for entry in ENTRIES if flag in entry.flags]
        assert wrong
        for entry in wrong:
            assert choose(matching(entry.key, ENTRIES), entry.key) != entry

    def test_the_newest_of_several_releases(self) -> None:
        # Llama 3.1 8B on 8 H100 with BF16: one layout, three containers, and a framework that published none of them.
        one = next(e for e in POINTS if e.key.recipe == "llama3.1-8b" and e.key.num_gpus == 8)
        ours = one.key.model_copy(update={"framework": "megatron-lm", "image": None, "fp8_recipe": None})
        dates = [entry.source.date for entry in matching(ours, POINTS)]
        assert len(dates) == 3
        assert choose(matching(ours, POINTS), ours).source.date == max(dates)


def entry_of(value: float, **more: Any) -> Reference:
    """A made entry: Llama 3.1 8B on 8 H100."""
    key = {
        **{"recipe": "llama3.1-8b", "task": "pretrain", "gpu": "H100", "num_gpus": 8, "precision": "bf16"},
        **{"num_layers": 32, "seq_length": 8192, "gbs": 128},
        **more.pop("key", {}),
    }
    document = {"id": "x:2", "metric": "step_time_s", "better": "lower", "value": value, "key": key}
    source = {"who": "me", "where": "here", "date": more.pop("date", "2026-01")}
    return Reference.model_validate({**document, "source": source, **more})


NEMO2 = {"framework": "nemo2", "image": "nemo:25.04"}
OURS = entry_of(1, key=NEMO2).key


class TestRank:
    """In this order, each before all that follow."""

    @pytest.mark.parametrize(
        ("better", "worse"),
        [
            ({"key": {"framework": "nemo2"}, "flags": ("rounded",)}, {"key": {"framework": "nemo1"}}),
            ({"key": NEMO2, "flags": ("rounded",)}, {"key": {"framework": "nemo2", "image": "nemo:25.09"}}),
            ({"date": "2024-01"}, {"date": "2026-01", "flags": ("third_party",)}),
            ({"date": "2024-01"}, {"metric": "tflops_per_gpu", "better": "higher", "convention": "full"}),
            ({"date": "2024-01", "key": {"tp": 1}}, {"date": "2026-01", "key": {"tp": 2}}),
            ({"date": "2025-12-09"}, {"date": "2025-10"}),
        ],
    )
    def test_the_better_wins(self, better: dict[str, Any], worse: dict[str, Any]) -> None:
        ours = OURS.model_copy(update={"tp": 1})
        good, bad = entry_of(10, **better), entry_of(11, **worse)
        assert choose([bad, good], ours) == choose([good, bad], ours) == good


class TestCountedFlops:
    """TFLOPS and MFU are compared under their own convention only."""

    time = 12.91
    entry = entry_of(time)

    def judged(self, **more: Any) -> Any:
        reference = entry_of(**{"better": "higher", **more})
        return judge(OURS, [run(self.entry, self.time)], [reference])

    def ours(self, convention: Any) -> Any:
        return getattr(run(self.entry, self.time).tflops_per_gpu, convention)

    @pytest.mark.parametrize("convention", ["full", "causal"])
    def test_our_count_is_theirs(self, convention: str) -> None:
        found = self.judged(metric="tflops_per_gpu", value=self.ours(convention), convention=convention)
        assert found.verdict == "pass"
        assert found.checks[0].ratio == pytest.approx(1)

    def test_the_other_convention_would_have_been_slow(self) -> None:
        found = self.judged(metric="tflops_per_gpu", value=self.ours("full"), convention="causal")
        assert found.verdict == "slow"

    def test_an_mfu_is_divided_as_theirs(self) -> None:
        value = 100 * self.ours("causal") / 2450
        found = self.judged(metric="mfu_percent", value=value, convention="causal", peak_tflops=2450)
        assert found.verdict == "pass"
        assert found.checks[0].value == pytest.approx(value)

    @pytest.mark.parametrize("convention", ["packed", None])
    def test_a_count_that_is_not_ours_is_never_compared(self, convention: str | None) -> None:
        found = self.judged(metric="tflops_per_gpu", value=500, convention=convention)
        assert found.verdict == "no_reference"


def test_a_run_whose_flops_are_not_known_is_not_held_against_tflops() -> None:
    reference = entry_of(500, metric="tflops_per_gpu", better="higher", convention="full")
    found = judge(OURS, [run(entry_of(10), 10).model_copy(update={"tflops_per_gpu": None})], [reference])
    assert (found.verdict, found.differs) == ("not_comparable", ())
    assert "TFLOPS/GPU" in found.reason


def test_what_a_source_does_not_say_is_not_comparable() -> None:
    reference = entry_of(10, key={"gbs": None})
    found = judge(OURS, [run(entry_of(10), 10)], [reference])
    assert (found.verdict, [d.key for d in found.differs]) == ("not_comparable", ["gbs"])
    assert found.reason == "gbs: reference not stated, this run 128"


def test_every_condition_that_must_agree_is_named_alone() -> None:
    other = {"task": "sft", "num_gpus": 16, "precision": "fp8", "num_layers": 4, "seq_length": 4096, "gbs": 64}
    other |= {"dimensions": "vocab_size 32000 of 128256", "settings": "concurrency 4"}
    assert set(other) | {"recipe", "gpu"} == set(HARD)
    for name, value in other.items():
        ours = OURS.model_copy(update={name: value})
        found = judge(ours, [run(entry_of(10), 10)], [entry_of(10)])
        assert [d.key for d in found.differs] == [name]
