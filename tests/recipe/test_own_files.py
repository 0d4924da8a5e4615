"""A recipe of the user's own: it is listed as a shipped one is, and what is wrong in it is one error with its line."""

from pathlib import Path

import pytest

from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request


def changed(tmp_path: Path, recipe: str, old: str, new: str) -> tuple[str, int]:
    """A copy of ``recipe`` with its first ``old`` changed to ``new``; its path, and the line of the change."""
    text = (paths.RECIPES / f"{recipe}.yaml").read_text()
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1))
    return str(path), text[: text.index(old)].count("\n") + 1


@pytest.mark.parametrize("recipe", ["llama3.1-8b", "deepseek-v3", "llama2-7b-ppo", "llama3.3-70b-inference"])
def test_a_copy_is_listed_as_the_shipped_recipe_is(tmp_path: Path, recipe: str) -> None:
    path = tmp_path / f"{recipe}.yaml"
    path.write_bytes((paths.RECIPES / path.name).read_bytes())
    assert api.list_points((str(path),)) == api.list_points((recipe,))


def test_a_list_has_the_types_that_values_are_meant_to_have(tmp_path: Path) -> None:
    path, _ = changed(tmp_path, "tiny-llama", "num_gpus: [1, ", "num_gpus: ['1', ")
    for row in api.list_layouts((path,)):
        assert row["num_gpus"] == sorted(row["num_gpus"])


def test_a_gpu_of_no_shipped_cluster_is_listed_with_a_cluster_that_has_it(tmp_path: Path) -> None:
    path, _ = changed(tmp_path, "tiny-llama", "gpu: CPU", "gpu: 40")
    with pytest.raises(UserError, match="no shipped cluster profile has GPUs of type 40"):
        api.list_points((path,))
    text = (paths.CLUSTERS / "local.yaml").read_text()
    assert "gpu: CPU" in text
    site = tmp_path / "site.yaml"
    site.write_text(text.replace("gpu: CPU", "gpu: '40'"))
    assert {row["gpu"] for row in api.list_points((path,), "40", str(site))} == {"40"}


@pytest.mark.parametrize(
    ("recipe", "old", "new", "text"),
    [
        ("gpt-moe-53b", "model: {moe: {", "model: {moe: {topk: many, ", "moe.topk' is 'many'"),
        ("gpt-20b", "gbs_per_gpu: 4", "gbs_per_gpu: 1e400", "gives no whole batch"),
        ("llama2-7b-ppo", "task: ppo", "task: pretrain", "'task' is 'pretrain'"),
        ("llama2-7b-ppo", "layout: {", "layout: 3 # {", "'layout' is 3"),
    ],
)
def test_a_wrong_value_is_an_error_with_its_line(tmp_path: Path, recipe: str, old: str, new: str, text: str) -> None:
    path, line = changed(tmp_path, recipe, old, new)
    with pytest.raises(UserError, match=text) as error:
        api.list_points((path,))
    assert error.value.where is not None
    assert error.value.where.startswith(f"{path}:")
    if "batch" not in text:
        assert error.value.where == f"{path}:{line}"


def test_a_missing_key_of_any_workload_names_the_file(tmp_path: Path) -> None:
    path, _ = changed(tmp_path, "llama2-7b-ppo", "model:", "env: {A: b} #")
    with pytest.raises(UserError, match="key 'model' is missing") as error:
        resolve(Request(path, num_gpus=16))
    assert error.value.where is not None
    assert error.value.where.startswith(f"{path}:")
