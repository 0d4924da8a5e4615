"""Acceptance plans as files: every problem at once, what a run states on top, which runs they stand for."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchrun import api, paths
from benchrun.errors import UserError

RUN = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": [2, 1]}


def write(folder: Path, **document: Any) -> str:
    path = folder / "mine.yaml"
    path.write_text(json.dumps({"description": "mine", "runs": [RUN], **document}, indent=1))
    return str(path)


def problems(path: str) -> list[UserError]:
    with pytest.raises(UserError) as error:
        api.plan_acceptance(path)
    return [error.value, *error.value.others]  # type: ignore[list-item]


def test_each_number_of_gpus_is_a_point_the_fewest_first(tmp_path: Path) -> None:
    planned = api.plan_acceptance(write(tmp_path, cluster="slurm-cpu", repeats=4))
    specs = [point.spec for point in planned.study.points]
    assert [(spec.num_gpus, spec.num_nodes, spec.cluster.name) for spec in specs] == [
        (1, 1, "slurm-cpu"),
        (2, 1, "slurm-cpu"),
    ]
    assert len(planned.study.slots) == 8
    assert (planned.fewest(2), planned.fewest(1)) == (1, 1)


@pytest.mark.parametrize(
    ("num_nodes", "numbers", "published"),
    [
        (1, [8], [8]),
        (3, [8, 16, 24], [8, 16]),
        (8, [8, 16, 32, 64, 64], [8, 16, 32, 64, 64]),
        (16, [8, 16, 32, 64, 128, 64, 128], [8, 16, 32, 64, 128, 64, 128]),
    ],
)
def test_a_plan_is_made_for_any_number_of_nodes(
    num_nodes: int, numbers: list[int], published: list[int], tmp_path: Path
) -> None:
    point = {"gpu": "H100", "precision": "fp8", "framework": "nemo2"}
    runs = [
        {**point, "recipe": "llama3.1-8b", "num_gpus": [8, 16, 32, 64]},
        {**point, "recipe": "llama3.1-70b", "num_gpus": 64},
    ]
    criteria = {"max_below_reference_percent": 5, "min_scaling_efficiency_percent": 90}
    path = write(tmp_path, runs=runs, cluster="dgx-h100", criteria=criteria)
    planned = api.plan_acceptance(path, num_nodes=num_nodes)
    assert [point.spec.num_gpus for point in planned.study.points] == numbers
    judged = []
    for number, each in enumerate(numbers, 1):
        if planned.criteria(number).max_below_reference_percent is not None:
            judged.append(each)
    assert judged == published
    assert planned.fewest(numbers.index(max(numbers)) + 1) == 1
    assert planned.name == f"mine-{num_nodes}-nodes"


def test_a_plan_that_no_node_fits_is_refused(tmp_path: Path) -> None:
    run = {"recipe": "llama3.1-70b", "gpu": "H100", "precision": "fp8", "framework": "nemo2", "num_gpus": 64}
    with pytest.raises(UserError, match="fits 2 nodes"):
        api.plan_acceptance(write(tmp_path, runs=[run], cluster="dgx-h100"), num_nodes=2)


def test_the_option_replaces_the_cluster_of_the_file(tmp_path: Path) -> None:
    planned = api.plan_acceptance(write(tmp_path, cluster="slurm-cpu"), cluster="local", title="again")
    assert {point.spec.cluster.name for point in planned.study.points} == {"local"}
    assert planned.name == "again"


def test_a_name_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        api.plan_acceptance(write(tmp_path), title="../elsewhere")


def test_a_run_adds_to_the_criteria_replaces_and_removes(tmp_path: Path) -> None:
    own = {"at_least": {"mfu_percent": 40, "tokens_per_s_per_gpu": None}, "max_spread_percent": None}
    runs = [RUN, {**RUN, "recipe": "tiny-gpt3", "criteria": own}]
    common = {"at_least": {"tokens_per_s_per_gpu": 5}, "max_spread_percent": 2, "max_failed_runs": 1}
    planned = api.plan_acceptance(write(tmp_path, runs=runs, criteria=common))
    first, third = planned.criteria(1), planned.criteria(3)
    assert (first.at_least, first.max_spread_percent, first.max_failed_runs) == ({"tokens_per_s_per_gpu": 5}, 2, 1)
    assert third.at_least == {"mfu_percent": 40, "tokens_per_s_per_gpu": None}
    assert (third.max_spread_percent, third.max_failed_runs) == (None, 1)
    names = [(each.point, each.criterion) for each in api.appraise(planned, {}).acceptance.criteria]
    assert (3, "at_least mfu_percent") in names
    assert not {(3, "at_least tokens_per_s_per_gpu"), (3, "max_spread_percent")} & {*names}


def test_every_problem_of_a_file_is_named_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "description: x\n"
        "repeats: 0\n"
        "runs:\n"
        "  - {recipe: tiny-llama, gpuz: CPU}\n"
        "criteria:\n"
        "  at_least: {tokens_per_s_per_gpus: 5}\n"
        "  at_most: {mfu_percent: 5}\n"
        "  max_below_reference_percent: 120\n"
    )
    found = {error.where: error for error in problems(str(path))}
    assert found.keys() == {f"{path}:{line}" for line in (2, 4, 6, 7, 8)}
    assert "tokens_per_s_per_gpu" in (found[f"{path}:6"].hint or "")
    assert "step_time_s" in (found[f"{path}:7"].hint or "")


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"repeats": 1, "criteria": {"max_spread_percent": 2}}, "max_spread_percent"),
        ({"runs": [{**RUN, "num_gpus": 1}], "criteria": {"min_scaling_efficiency_percent": 90}}, "min_scaling"),
        ({"runs": [RUN, {**RUN, "num_gpus": 1, "criteria": {"min_scaling_efficiency_percent": 9}}]}, "min_scaling"),
        ({"runs": [{**RUN, "num_gpus": [1, 1]}]}, '"num_gpus"'),
        ({"runs": [{**RUN, "set": {"precision": "bf16"}}]}, '"set"'),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(tmp_path: Path, document: dict[str, Any], place: str) -> None:
    path = write(tmp_path, **document)
    (error,) = problems(path)
    line = int((error.where or "").rpartition(":")[2])
    lines = Path(path).read_text().splitlines()
    assert place in lines[line - 1]


def test_every_illegal_point_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, runs=[{**RUN, "set": {"mbs": 3}}, RUN, {**RUN, "num_gpus": 1}, {"recipe": "tiny-lama"}])
    found = problems(path)
    assert len(found) == 4  # two of the first run, a repeated point, an unknown recipe
    assert all((error.where or "").startswith(f"{path}:") for error in found)


def test_a_plan_is_of_one_cluster(tmp_path: Path) -> None:
    other = {**RUN, "set": {"cluster.name": "elsewhere"}}
    assert "several clusters" in problems(write(tmp_path, runs=[RUN, other]))[0].message


@pytest.mark.parametrize("name", paths.shipped(paths.PLANS))
def test_every_shipped_plan_is_legal_and_every_point_has_a_criterion_of_speed(name: str) -> None:
    acceptance = api.appraise(api.plan_acceptance(name), {}).acceptance
    assert acceptance.verdict == "inconclusive"
    fast = {each.point for each in acceptance.criteria if "tokens" in each.criterion or "reference" in each.criterion}
    assert fast == {point.point for point in acceptance.points}
