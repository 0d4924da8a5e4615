"""Predictions and memory of the models of today read the same operator list: more work takes longer, and fits less."""

import pytest

from benchrun.capabilities.predict.prediction import predict
from benchrun.capabilities.predict.runs import workload_of_run
from benchrun.memory import estimate
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.runspec.spec import TrainingSpec

NAMES = (
    *("deepseek-v3", "kimi-k2", "qwen3-30b-a3b", "qwen3-235b-a22b", "gpt-oss-120b", "llama4-maverick", "llama4-scout"),
    *("nemotron-3-nano", "nemotron-3-super", "nemotron-h-56b", "qwen2.5-72b", "llama3.2-1b", "qwen3-8b"),
)


def spec(name: str) -> TrainingSpec:
    """The first point of a recipe."""
    file = catalogue.recipe_file(name)
    run = resolve_point(file, catalogue.points(file.recipe)[0])
    assert isinstance(run, TrainingSpec)
    return run


def with_model(run: TrainingSpec, **changes: object) -> TrainingSpec:
    return run.model_copy(update={"model": run.model.model_copy(update=changes)})


def step_s(run: TrainingSpec) -> float:
    return predict(workload_of_run(run)).median


@pytest.mark.parametrize("name", NAMES)
def test_a_step_takes_time_and_fewer_layers_take_less(name: str) -> None:
    run = spec(name)
    layers = run.model.num_layers // 2 // (run.layout.pp * run.layout.vp) * run.layout.pp * run.layout.vp
    half = with_model(run, num_layers=layers or run.model.num_layers // 2)
    assert 0 < step_s(half) < step_s(run)


@pytest.mark.parametrize("name", NAMES)
def test_memory_has_every_part_and_grows_with_the_micro_batch(name: str) -> None:
    run = spec(name)
    one, two = estimate(run), estimate(run.model_copy(update={"mbs": 2 * run.mbs}))
    assert min(one.weights, one.gradients, one.optimizer, one.activations) > 0
    assert two.activations > one.activations and two.weights == one.weights


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("deepseek-v3", {"mtp_layers": 0}),
        ("gpt-oss-120b", {"window": None}),
    ],
)
def test_what_a_model_has_besides_costs_what_it_computes(name: str, changes: dict[str, object]) -> None:
    run = spec(name)
    other = step_s(with_model(run, **changes))
    assert (other < step_s(run)) == (name == "deepseek-v3")


def test_recomputing_more_takes_less_memory() -> None:
    run = spec("deepseek-v3")
    modules = run.training.recompute.modules
    assert modules and "moe" not in modules
    more = run.training.recompute.model_copy(update={"modules": (*modules, "moe")})
    with_experts = run.model_copy(update={"training": run.training.model_copy(update={"recompute": more})})
    assert estimate(with_experts).activations < estimate(run).activations
