"""The table that `benchrun list` reads is what the resolver makes of the recipes."""

from pathlib import Path

import pytest

from benchrun import api, paths
from benchrun.recipes.catalogue import recipe_file
from benchrun.usecases import listing, point_table
from tests.selection import some


def stored(name: str) -> listing.Rows:
    return listing.point_rows((name,), None)


@pytest.mark.parametrize("name", some(paths.shipped(paths.RECIPES), 12))
def test_a_recipe_has_the_rows_of_its_resolved_points(name: str) -> None:
    columns = [*point_table.resolved_rows(recipe_file(name))[0]]
    rows = [{column: row[column] for column in columns} for row in stored(name)]
    assert rows == point_table.resolved_rows(recipe_file(name))


def test_the_table_is_of_these_recipes() -> None:
    assert set(listing._table()) == set(paths.shipped(paths.RECIPES)), "python -m benchrun.usecases.point_table"


def test_a_table_of_other_recipes_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = listing.POINTS.read_text().splitlines(keepends=True)
    old = tmp_path / "points.jsonl"
    old.write_text(lines[0].replace('"inputs": "', '"inputs": "0') + lines[1])
    monkeypatch.setattr(listing, "POINTS", old)
    listing._table.cache_clear()
    assert listing._table() == {}
    assert len(stored("tiny-llama")) > 0
    listing._table.cache_clear()


def test_some_rows_have_references_and_some_have_none() -> None:
    counts = {row["reference"] > 0 for row in api.list_points()}
    assert counts == {True, False}
