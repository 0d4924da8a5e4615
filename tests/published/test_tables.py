"""Each row of the tables of published numbers has a reference of a recipe, or a reason why no recipe has it.

``python tests/published/tables.py FOLDER`` counts the rows anew.
"""

import csv
import sys
from pathlib import Path

from benchrun import paths
from benchrun.judge.references import load_references

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from tables import LAYOUTS, LISTED, REASONS, SUFFIX, TABLES, TWINS  # noqa: E402

with LISTED.open(encoding="utf-8", newline="") as lines:
    GROUPS = list(csv.DictReader(lines))


def test_every_row_of_every_table_is_counted() -> None:
    counts = dict.fromkeys((*TABLES, *LAYOUTS), 0)
    for group in GROUPS:
        counts[group["table"]] += int(group["rows"])
    assert list(counts.values()) == [566, 544, 706, 960, 620, 348]


def test_each_row_has_a_reference_or_its_model_a_reason() -> None:
    recipes = set(paths.shipped(paths.RECIPES))
    for group in GROUPS:
        if group["recipe"]:
            assert group["recipe"] in recipes, group
            assert group["with_reference"] == ("" if group["table"] in LAYOUTS else group["rows"]), group
        else:
            assert group["reason"] in REASONS.values(), group
            assert group["model"] + SUFFIX.get(group["task"], "") not in recipes, group


def test_the_numbers_of_a_group_are_on_its_gpu() -> None:
    listed = {(entry.key.recipe, entry.key.gpu) for entry in load_references()}
    chips = {(recipe, gpu.partition("-")[0]) for recipe, gpu in listed}
    for group in GROUPS:
        if group["with_reference"] and group["recipe"]:
            names = (group["recipe"], *TWINS.get(group["recipe"], ()))
            assert any((name, group["gpu"]) in chips for name in names), group
