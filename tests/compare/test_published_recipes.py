"""Every published number of a Hopper or Ampere GPU, judged as ``benchrun compare LOG --recipe`` judges a log."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import replace

import pytest

from benchrun import flow, paths
from benchrun.compare import conditions
from benchrun.compare.conditions import HARD, must_agree
from benchrun.metrics.flops import flops_per_token
from benchrun.metrics.known import Known
from benchrun.parse import Facts, Log, Rows, Step
from benchrun.recipe import catalogue
from benchrun.recipe.listing import listed
from benchrun.recipe.resolve import resolve_point
from tests.compare.recount import model_of
from tests.compare.test_published_points import POINTS, published_time

HERE = [entry for entry in POINTS if entry.key.gpu in ("H100", "H200", "A100")]
RECIPES = catalogue.names(paths.RECIPES)
STEPS = 12
# What was published for these GPUs and is no point of its recipe: MLPerf's batches, other sequence lengths, one GPU.
UNLISTED = {
    **{"gpt3-175b": 13, "llama2-70b-lora": 15, "llama2-7b-lora": 3, "llama2-7b-sft": 2, "llama3-70b-lora": 2},
    **{"llama3-8b": 2, "llama3-8b-lora": 1},
}


@pytest.fixture(scope="module", autouse=True)
def _read_each_recipe_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "recipe_file", functools.cache(catalogue.recipe_file))
        yield


def log(framework, step_time_s):
    rows = Rows(Step(step=i, step_time_s=step_time_s, line=i, loss=2.0) for i in range(1, STEPS + 1))
    return Log("x.log", framework or "megatron-lm", rows, Facts(planned_steps=STEPS))


def judged(entry, step_time_s, **other):
    """A log that says nothing of its conditions, and options that say what was published."""
    key = entry.key
    model = catalogue.recipe_file(key.recipe).recipe.model.model_copy(update={"num_layers": key.num_layers})
    given = Known(key.seq_length, key.gbs, key.num_gpus, key.gpu, key.precision, model)
    return flow.judge_log(log(key.framework, step_time_s), key.recipe, replace(given, **other))[0]


def test_every_published_workload_has_a_recipe():
    assert {entry.key.recipe for entry in POINTS} <= set(RECIPES)
    assert len(HERE) > 450


@pytest.mark.parametrize("recipe", sorted({entry.key.recipe for entry in HERE}))
def test_the_published_time_passes_and_others_do_not(recipe):
    for entry in (entry for entry in HERE if entry.key.recipe == recipe):
        used = judged(entry, published_time(entry)).checks[0].reference
        assert must_agree(used.key) == must_agree(entry.key)
        assert used.key.framework == entry.key.framework
        time = published_time(used)
        assert judged(entry, time).verdict == "pass", entry.id
        assert judged(entry, 1.1 * time).verdict == "slow", entry.id
        fast = judged(entry, time / 1.3)
        # A few ran so near the peak that 30 % more is impossible, and said to be.
        assert fast.verdict == "faster_than_expected" or "impossible_rate" in fast.reason, entry.id
        other = judged(entry, time, seq_length=entry.key.seq_length + 64)
        assert (other.verdict, [d.key for d in other.differs]) == ("not_comparable", ["seq_length"]), entry.id


def test_a_recipe_counts_the_flops_of_the_published_model():
    for entry in HERE:
        ours = catalogue.recipe_file(entry.key.recipe).recipe.model
        ours = ours.model_copy(update={"num_layers": entry.key.num_layers})
        counted, published = (flops_per_token(model, entry.key.seq_length) for model in (ours, model_of(entry)))
        assert counted == published, entry.id


def test_what_was_published_is_a_point_that_can_be_launched():
    """The conditions of its RunSpec agree; and what is no point is known by its number, so that none is lost."""
    points = defaultdict(list)
    for name in RECIPES:
        file = catalogue.recipe_file(name)
        for row, point in zip(listed(file), catalogue.points(file.recipe), strict=True):
            points[tuple(row[key] for key in HARD)].append((file, point))
    missing = defaultdict(int)
    for entry in HERE:
        found = points[must_agree(entry.key)]
        for file, point in found[:1]:
            assert must_agree(conditions(resolve_point(file, point))) == must_agree(entry.key)
        missing[entry.key.recipe] += not found and entry.key.gpu != "A100"
    assert {recipe: number for recipe, number in missing.items() if number} == UNLISTED
