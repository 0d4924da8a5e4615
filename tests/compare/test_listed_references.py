"""A listing counts references from the CSV files alone; the counts are those of the comparison."""

import pytest
from selection import some

from benchrun import app, paths
from benchrun.comparison.conditions import Conditions
from benchrun.comparison.references import load_references, matching
from benchrun.recipe.files import listed
from benchrun.vocabulary import HARD

COUNTS: dict[tuple[object, ...], int] = {}


def count(key: tuple[object, ...]) -> int:
    if key not in COUNTS:
        own = Conditions(**dict(zip(HARD, key, strict=True)))
        COUNTS[key] = len(matching(own, load_references()))
    return COUNTS[key]


@pytest.mark.parametrize("name", some(paths.shipped(paths.RECIPES), 12))
def test_a_row_has_as_many_references_as_a_run_of_it(name: str) -> None:
    keys = [tuple(row[key] for key in HARD) for row in listed(name)]
    assert [row["reference"] for row in app.list_points((name,))] == [count(key) for key in keys]


def test_some_rows_have_references_and_some_have_none() -> None:
    counts = {row["reference"] > 0 for row in app.list_points()}
    assert counts == {True, False}
