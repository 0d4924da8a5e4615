"""The row that judges a run: the cases in which another one once did, twins, and what is kept of the choice."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchrun import api, paths
from benchrun.judge.choice import choice, choose, references_for
from benchrun.judge.conditions import SOFT, conditions, differences
from benchrun.judge.references import Reference, load_references, matching
from benchrun.judge.verdict import RunResult, Verdict, judge
from benchrun.logs import Facts, Log, Rows, Step
from benchrun.measure.setting import Setting, setting_of
from benchrun.measure.summary import measure
from benchrun.recipes.catalogue import recipe_file
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.show.terminal import run_page, verdict_view

STEPS = 12


def log(time_s: float, framework: str = "megatron-lm", **facts: int) -> Log:
    rows = Rows(Step(step=i, step_time_s=time_s, line=i, loss=2.0) for i in range(1, STEPS + 1))
    return Log("x.log", framework, rows, Facts(planned_steps=STEPS, **facts))


def judged(recipe: str, time_s: float, gbs: int, gpus: int, precision: str, **facts: int | str) -> Verdict:
    known = Setting(None, gbs, gpus, "H100", precision, recipe_file(recipe).recipe.model)
    return api.judge_log(log(time_s, **facts), recipe, known)[0]


def test_a_megatron_run_is_held_against_its_family_and_not_against_pytorch() -> None:
    """NeMo 2 took 9.118 s, NeMo AutoModel 15.00 and 24.87 s."""
    found = judged("llama3-70b-lora", 14.0, 32, 8, "bf16", framework="megatron-lm")
    assert (found.verdict, found.checks[0].reference.key.framework) == ("slow", "nemo2")
    assert (found.chosen_because.framework, found.chosen_because.candidates) == ("family", 3)


def test_why_a_row_was_chosen_is_shown_with_the_verdict_and_on_the_page_of_a_run() -> None:
    found = judged("llama3-70b-lora", 14.0, 32, 8, "bf16", framework="megatron-lm")
    spec = resolve(Request("llama3-70b-lora", "H100", "bf16", 8))
    for text in (verdict_view(found, None).plain, run_page(RunResult("x", spec, None, found))):
        assert found.chosen_because.sentence in text


def test_a_run_of_automodel_s_family_is_held_against_automodel() -> None:
    found = judged("llama3-70b-lora", 15.0, 32, 8, "bf16", framework="hf")
    assert (found.verdict, found.checks[0].reference.value) == ("pass", 15.0)


@pytest.mark.parametrize("layout", [{}, {"mbs": 1, "tp": 8, "pp": 8, "cp": 2, "vp": 8, "ep": 1}])
def test_a_newer_release_that_is_slower_does_not_win(layout: dict[str, Any]) -> None:
    """405B, FP8, 1024 H100: NeMo 25.02 took 12.42 s, Bridge a year later 13.56 and 14.03 s."""
    found = judged("llama3.1-405b", 12.42 / 0.85, 512, 1024, "fp8", **layout)
    assert (found.verdict, found.checks[0].reference.value) == ("slow", 12.42)
    assert found.chosen_because.same_layout == bool(layout)


def test_a_launched_point_is_held_against_the_row_of_its_layout() -> None:
    spec = resolve(Request("llama3.1-405b", "H100", "fp8", 1024, "megatron-lm"))
    ours = conditions(spec)
    found = choose(matching(ours, load_references()), ours)
    assert (found.value, found.key.framework) == (12.42, "nemo2")


def entry(value: float, **more: dict[str, str]) -> Reference:
    key = {
        **{"recipe": "llama3.1-8b", "task": "pretrain", "gpu": "H100", "num_gpus": 8, "precision": "bf16"},
        **{"num_layers": 32, "seq_length": 8192, "gbs": 128},
        **more.pop("key", {}),
    }
    source = {"who": "me", "where": "here", "date": more.pop("date", "2026-01")}
    better = "lower" if more.get("metric", "step_time_s") == "step_time_s" else "higher"
    document = {"id": "x:2", "metric": "step_time_s", "better": better, "value": value, "key": key, "source": source}
    return Reference.model_validate({**document, **more})


OURS = entry(1, key={"framework": "megatron-lm", "tp": 2, "pp": 4, "mbs": 1}).key


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (entry(12, key={"framework": "megatron-lm"}), entry(10, key={"framework": "nemo2"})),
        (entry(12, key={"framework": "nemo2"}), entry(10, key={"framework": "torchtitan"})),
        (entry(12, key={"framework": "megatron-bridge", "tp": 8}), entry(10, key={"framework": "maxtext", "tp": 2})),
        (entry(12, key={"tp": 2, "pp": 4}), entry(10, key={"tp": 8})),
        (entry(12, key={"tp": 2, "pp": 4}), entry(10, key={"tp": 2, "pp": 4, "mbs": 2})),
        (entry(12, key={"tp": 2, "pp": 4}), entry(10, key={"tp": 2})),
        (entry(10, date="2024-01"), entry(12, date="2026-01")),
        (entry(12), entry(10, flags=("third_party",))),
        (entry(12), entry(10, key={"variant": "async TP"})),
        (entry(12), entry(10, flags=("revised",))),
        # 8 x 588 TFLOPS (full) are a step of 12.9 s.
        (entry(10), entry(588, metric="tflops_per_gpu", convention="full")),
        (entry(588, metric="tflops_per_gpu", convention="full"), entry(14)),
    ],
)
def test_each_part_of_the_rule_goes_before_what_follows(better: Reference, worse: Reference) -> None:
    assert choose([better, worse], OURS) == choose([worse, better], OURS) == better


@pytest.mark.parametrize(
    ("others", "faster"),
    [
        ([entry(14)], 0),
        ([entry(10, flags=("third_party",))], 1),
        ([entry(10, key={"variant": "async TP"}), entry(9, flags=("rounded",))], 2),
        ([entry(10, key={"framework": "torchtitan"})], 0),
        ([entry(10, flags=("revised",))], 0),
    ],
)
def test_faster_rows_that_were_passed_over_are_counted(others: list[Reference], faster: int) -> None:
    ours = OURS.model_copy(update={"framework": "nemo2"})
    best = entry(12, key={"framework": "nemo2"})
    others = [
        o.model_copy(update={"key": o.key.model_copy(update={"framework": o.key.framework or "nemo2"})}) for o in others
    ]
    assert choose([best, *others], ours) == best
    assert choice(best, [best, *others], ours).faster == faster


class TestTwins:
    """Llama 3 and Llama 3.1 are one computation at one sequence length."""

    @pytest.mark.parametrize("size", ["8b", "70b"])
    def test_each_name_is_served_by_the_rows_of_the_other(self, size: str) -> None:
        names = {f"llama3-{size}", f"llama3.1-{size}"}
        rows = [e for e in load_references() if e.key.recipe in names and e.key.gpu == "H100"]
        rows = [e for e in rows if choose([e], e.key)]
        assert {row.key.recipe for row in rows} == names
        for row in rows:
            (other,) = names - {row.key.recipe}
            renamed = row.key.model_copy(update={"recipe": other})
            assert row in matching(renamed, rows)
            assert references_for(row.id, renamed) == (row,)

    def test_the_verdict_says_so(self) -> None:
        row = next(
            e for e in load_references() if (e.key.recipe, e.key.framework) == ("llama3-8b", "nemo1") and not e.flags
        )
        key = row.key
        known = Setting(key.seq_length, key.gbs, key.num_gpus, key.gpu, key.precision)
        found, _ = api.judge_log(log(row.value, "nemo1"), "llama3.1-8b", known, reference=row.id)
        assert (found.checks[0].reference, found.chosen_because.by_name) == (row, True)
        assert "twin_model" in [label.code for label in found.labels]
        named = next(d for d in found.checks[0].differs)
        assert (named.key, named.theirs, named.ours) == ("recipe", "llama3-8b", "llama3.1-8b")

    def test_another_sequence_length_is_not_served(self) -> None:
        row = next(e for e in load_references() if e.key.recipe == "llama3-8b" and choose([e], e.key))
        longer = row.key.model_copy(update={"recipe": "llama3.1-8b", "seq_length": 131072})
        assert row not in matching(longer, load_references())

    def test_a_recipe_of_one_s_own_is_known_by_its_shape_and_not_by_its_name(self, tmp_path: Path) -> None:
        document = yaml.safe_load((paths.RECIPES / "llama3-8b.yaml").read_text())
        document["model"] = {**recipe_file("llama3.1-8b").recipe.model.model_dump(exclude={"moe"})}
        document["model"]["max_position_embeddings"] = 1 << 20
        for name, layers in (("mine", 32), ("fewer", 31)):
            document["model"]["num_layers"] = layers
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(document))
        known = Setting(8192, 128, 8, "H100", "bf16")
        found = {name: api.judge_log(log(12.3), str(tmp_path / f"{name}.yaml"), known)[0] for name in ("mine", "fewer")}
        assert (found["mine"].verdict, found["fewer"].verdict) == ("pass", "no_reference")
        assert found["mine"].checks[0].reference.key.recipe == "llama3.1-8b"

    def test_adapters_belong_to_a_recipe_and_not_to_a_shape(self) -> None:
        row = next(e for e in load_references() if e.key.recipe == "llama2-70b-lora" and choose([e], e.key))
        assert row not in matching(row.key.model_copy(update={"recipe": "llama2-70b-lora-hf"}), load_references())

    def test_a_loss_is_of_its_own_recipe(self) -> None:
        row = next(e for e in load_references() if e.key.recipe == "tiny-llama" and e.metric == "final_loss")
        assert row not in matching(row.key.model_copy(update={"recipe": "tiny-llama-learnable"}), load_references())

    def test_list_and_show_count_the_same_rows(self) -> None:
        rows = [row for row in api.list_points(("llama3.1-8b",), "H100") if not row["proxy"]]
        for row in rows:
            point = ("llama3.1-8b", "H100", row["precision"], row["num_gpus"], row["framework"])
            spec = resolve(Request(*point, overrides=(f"gbs={row['gbs']}", f"seq_length={row['seq_length']}")))
            assert row["reference"] == len(matching(conditions(spec), load_references()))


def test_a_run_of_this_choice_is_judged_by_its_own_numbers() -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
    rows = Rows(Step(step=i, step_time_s=10.0, line=i, loss=2.0) for i in range(1, STEPS + 1))
    metrics = measure(Log("x", "megatron-lm", rows), setting_of(spec), planned_steps=STEPS)
    found = judge(conditions(spec), [metrics], [entry(10.0), entry(11.0)])
    assert (found.chosen_because.candidates, found.checks[0].ratio) == (2, 1.0)


def test_sharded_weights_are_among_what_differs() -> None:
    """All other degrees of a data-parallel run and of one with FSDP are equal."""
    point = "llama3.1-8b", "H100", "bf16", 8, "nemo2"
    plain, sharded = (conditions(resolve(Request(*point, overrides=(f"layout.fsdp={n}",)))) for n in (1, 8))
    (difference,) = differences(plain, sharded, SOFT)
    assert (difference.key, difference.theirs, difference.ours) == ("fsdp", 1, 8)
