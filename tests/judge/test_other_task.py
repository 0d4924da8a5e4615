"""A log of one task is no run of a recipe of another, whatever speeds are published for their common model."""

from pathlib import Path

import kept_runs
import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.judge.conditions import conditions
from benchrun.judge.references import same_work
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.folder import RunDir


@pytest.mark.parametrize("recipe", ["llama3-8b-lora", "llama3-8b-sft"])
def test_a_pretraining_log_does_not_pass_as_a_fine_tune(recipe: str) -> None:
    log = parse_log(kept_runs.first("llama3.1-8b-13c939ac-*") / "stdout.log.xz")
    assert log.facts.task == "pretrain"
    verdict, _ = api.judge_log(log, recipe, api.completed_setting(recipe))
    assert verdict.verdict in ("not_comparable", "no_reference")
    assert not verdict.checks


def test_the_same_log_is_judged_as_a_twin_of_its_own_task() -> None:
    log = parse_log(kept_runs.first("llama3.1-8b-13c939ac-*") / "stdout.log.xz")
    assert api.judge_log(log, "llama3-8b", api.completed_setting("llama3-8b"))[0].checks


def test_recipes_of_two_tasks_are_not_the_same_work() -> None:
    pretrain, sft = (
        conditions(resolve(Request(name, "H100", "fp8", 8, "nemo2"))) for name in ("llama3-8b", "llama3-8b-sft")
    )
    assert not same_work(pretrain, sft.model_copy(update={"task": "pretrain"}))


def test_runs_of_two_points_are_not_judged_together(tmp_path: Path) -> None:
    runs = [RunDir(kept_runs.first(f"{name}-*")) for name in ("llama3.1-8b", "llama2-7b")]
    with pytest.raises(UserError):
        api.judge_runs(runs)
