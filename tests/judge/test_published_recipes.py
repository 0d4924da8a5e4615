"""Every published number of a Hopper or Ampere GPU, judged as ``benchrun compare LOG --recipe`` judges a log."""

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

import pytest
from selection import some

from benchrun import api
from benchrun.errors import UserError
from benchrun.judge.choice import references_for
from benchrun.judge.conditions import HARD, Conditions, conditions
from benchrun.judge.references import Reference, load_references
from benchrun.judge.verdict import Verdict
from benchrun.logs import Facts, Log, Rows, Step
from benchrun.measure.setting import Setting
from benchrun.model.flops import flops_per_token
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.usecases.listing import point_rows
from tests.judge.recount import model_of
from tests.judge.test_published_points import POINTS, published_time

must_agree = attrgetter(*HARD)
RECIPES = catalogue.trainings()
HERE = [entry for entry in POINTS if entry.key.recipe in RECIPES]
STEPS = 12


@pytest.fixture(scope="module", autouse=True)
def _read_each_recipe_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "recipe_file", functools.cache(catalogue.recipe_file))
        yield


def log(framework: str | None, step_time_s: float) -> Log:
    rows = Rows(Step(step=i, step_time_s=step_time_s, line=i, loss=2.0) for i in range(1, STEPS + 1))
    return Log("x.log", framework or "megatron-lm", rows, Facts(planned_steps=STEPS))


def judged(entry: Reference, step_time_s: float, reference: None = "its own", **other: int) -> Verdict:
    """A log that says nothing of its conditions, and options that say what was published, and which number is meant."""
    key = entry.key
    model = catalogue.recipe_file(key.recipe).recipe.model.model_copy(update={"num_layers": key.num_layers})
    given = Setting(key.seq_length, key.gbs, key.num_gpus, key.gpu, key.precision, model)
    given = replace(given, **other)
    reference = entry.id if reference else None
    return api.judge_log(log(key.framework, step_time_s), key.recipe, given, reference=reference)[0]


def test_every_published_workload_has_a_recipe() -> None:
    assert {entry.key.recipe for entry in POINTS} <= set(RECIPES)
    assert len(HERE) > 800


def test_a_number_that_is_none_to_compare_with_is_refused() -> None:
    entry = next(entry for entry in HERE if entry.key.recipe == "gpt3-175b")
    revised = next(e for e in load_references() if "revised" in e.flags)
    for name, says in ((revised.id, "revised"), ("gpt3-175b:1", "no reference is called")):
        with pytest.raises(UserError, match=says):
            references_for(name, entry.key)
    other = judged(entry, published_time(entry), num_gpus=entry.key.num_gpus * 2)
    assert (other.verdict, [d.key for d in other.differs]) == ("not_comparable", ["num_gpus"])


def test_a_number_of_another_workload_or_gpu_is_refused() -> None:
    entry, other = (next(e for e in HERE if e.key.recipe == name) for name in ("llama3.1-8b", "gpt3-175b"))
    for key in (other.key, entry.key.model_copy(update={"gpu": "GH200"})):
        with pytest.raises(UserError) as error:
            references_for(entry.id, key)
        said = f"is a number for llama3.1-8b on {entry.key.gpu}; this run is {key.recipe} on {key.gpu}"
        assert error.value.message == f"{entry.id} {said}"


def test_a_bare_log_as_fast_as_an_older_release_is_slow_and_told_of_it() -> None:
    old = next(e for e in HERE if e.key.recipe == "llama2-7b-lora" and e.key.framework_version)
    found = judged(old, published_time(old), reference=None)
    assert (found.verdict, found.checks[0].reference.source.date > old.source.date) == ("slow", True)
    assert "--reference llama2-7b-lora:" in found.reason


@pytest.mark.parametrize("recipe", some(sorted({entry.key.recipe for entry in HERE}), 12))
def test_the_published_time_passes_and_others_do_not(recipe: str) -> None:
    for entry in (entry for entry in HERE if entry.key.recipe == recipe):
        time = published_time(entry)
        found = judged(entry, time)
        assert (found.verdict, found.checks[0].reference) == ("pass", entry), entry.id
        assert judged(entry, 1.1 * time).verdict == "slow", entry.id
        faster = "pass" if "floor" in entry.flags else "faster_than_expected"
        assert judged(entry, time / 1.3).verdict == faster, entry.id
        other = judged(entry, time, seq_length=entry.key.seq_length + 64)
        assert (other.verdict, [d.key for d in other.differs]) == ("not_comparable", ["seq_length"]), entry.id


def test_a_recipe_counts_the_flops_of_the_published_model() -> None:
    for entry in HERE:
        ours = catalogue.recipe_file(entry.key.recipe).recipe.model
        ours = ours.model_copy(update={"num_layers": entry.key.num_layers})
        counted, published = (flops_per_token(model, entry.key.seq_length) for model in (ours, model_of(entry)))
        assert counted == published, entry.id


def test_what_was_published_is_a_point_that_can_be_launched() -> None:
    """The conditions of its RunSpec agree."""
    points = defaultdict(list)
    for name in RECIPES:
        file = catalogue.recipe_file(name)
        for row, point in zip(point_rows((name,), None), catalogue.points(file.recipe), strict=True):
            listed = Conditions.model_validate({name: row[name] for name in HARD})
            points[must_agree(listed)].append((file, point))
    elsewhere = [entry for entry in HERE if entry.key.gpu == "A100" or entry.key.framework == "torchtitan"]
    for entry in (entry for entry in HERE if entry not in elsewhere):
        assert points[must_agree(entry.key)], entry.id
        file, point = points[must_agree(entry.key)][0]
        assert must_agree(conditions(resolve_point(file, point))) == must_agree(entry.key)
