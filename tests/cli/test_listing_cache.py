"""`benchrun list` answers from a cache, which never differs from the recipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchrun import app, paths
from benchrun.app import listing
from benchrun.errors import UserError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    recipes = tmp_path / "recipes"
    shutil.copytree(paths.RECIPES, recipes)
    for path in recipes.glob("*.yaml"):
        if not path.stem.startswith("llama3.1-8b"):
            path.unlink()
    for name, path in (("RECIPES", recipes), ("REFERENCE", tmp_path / "reference")):
        monkeypatch.setattr(paths, name, path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_second_listing_reads_no_recipe(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = app.list_points()
    assert list(cache.glob("benchrun/*.json"))
    monkeypatch.delattr(listing, "_points")
    assert app.list_points() == fresh
    one = app.list_points(["llama3.1-8b"], "h100")
    assert one == [row for row in fresh if (row["recipe"], row["gpu"]) == ("llama3.1-8b", "H100")] != []
    with pytest.raises(UserError, match="no point is for --gpu V100"):
        app.list_points(gpu="V100")


def test_a_changed_recipe_is_listed_anew(cache: Path) -> None:
    before = app.list_points()
    path = paths.RECIPES / "llama3.1-8b.yaml"
    path.with_name("llama3.1-8b-mine.yaml").write_text(path.read_text())
    recipes = {row["recipe"] for row in app.list_points()}
    assert recipes == {row["recipe"] for row in before} | {"llama3.1-8b-mine"}
    path.unlink()
    assert "llama3.1-8b" not in {row["recipe"] for row in app.list_points()}


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"files": {}, "points": {}})])
def test_a_damaged_cache_is_replaced(cache: Path, content: str) -> None:
    fresh = app.list_points()
    (file,) = cache.glob("benchrun/*.json")
    file.write_text(content)
    assert app.list_points() == fresh
    assert json.loads(file.read_text())["points"]


def test_a_home_that_cannot_be_written_is_no_error(cache: Path) -> None:
    cache.write_text("")  # a file in place of the folder
    assert app.list_points()


def test_a_cached_listing_does_without_pydantic(tmp_path: Path) -> None:
    code = "import sys\nfrom benchrun.cli import main\ntry: main(['list'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'pydantic', 'yaml'} & set(sys.modules)), file=sys.stderr)"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    ]
    assert [run.stderr.splitlines()[-1] for run in runs] == ["['pydantic', 'yaml']", "[]"]
    assert runs[0].stdout == runs[1].stdout != ""
