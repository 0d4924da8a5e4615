"""Published numbers without a row in results/reference: each has a reason, and none of them has a recipe."""

import re

from benchrun import paths
from benchrun.comparison.references import load_references
from benchrun.recipe import catalogue

TITLE = "## Published numbers without a row"


def rows() -> list[list[str]]:
    """The cells of the table."""
    text = (paths.REFERENCE / "README.md").read_text().partition(TITLE)[2].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_each_has_a_source_a_count_and_a_reason() -> None:
    assert len(rows()) >= 5
    for numbers, source, count, reason in rows():
        assert numbers and re.search(r"[/ ]", source) and int(count) > 0 and len(reason) > 20


def test_every_reference_has_a_recipe_and_no_left_out_model_has() -> None:
    recipes = set(catalogue.names(paths.RECIPES))
    assert {entry.key.recipe for entry in load_references()} <= recipes
    for model in ("deepseek-v4", "nemotron-3-ultra", "nemotron-3.5", "zebra"):
        assert not [name for name in recipes if name.startswith(model)]


def test_newer_models_have_points_on_newer_gpus() -> None:
    """A published number of a Blackwell GPU belongs to a recipe that has a point for that GPU, or to an older model."""
    of_today = (
        "deepseek-v3",
        "qwen3-30b-a3b",
        "qwen3-235b-a22b",
        "gpt-oss-120b",
        "nemotron-3-nano",
        "nemotron-3-super",
    )
    for name in of_today:
        points = {point.gpu for point in catalogue.points(catalogue.recipe_file(name).recipe)}
        published = {entry.key.gpu for entry in load_references() if entry.key.recipe == name}
        assert published <= points
