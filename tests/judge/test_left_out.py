"""Published numbers without a row in results/reference or without a point in a recipe: each has a reason."""

import re
from collections import Counter
from operator import attrgetter

from benchrun import paths
from benchrun.judge.conditions import Conditions
from benchrun.judge.references import Reference, load_references
from benchrun.usecases.listing import point_rows
from benchrun.vocabulary import HARD

must_agree = attrgetter(*HARD)
TITLE = "## Published numbers without a row"


NO_POINT = "## Published numbers without a point"


def rows(title: str = TITLE) -> list[list[str]]:
    """The cells of the table."""
    text = (paths.REFERENCE / "README.md").read_text().partition(title)[2].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_each_has_a_source_a_count_and_a_reason() -> None:
    assert len(rows()) >= 5
    for numbers, source, count, reason in rows():
        assert numbers and re.search(r"[/ ]", source) and int(count) > 0 and len(reason) > 20


def test_every_reference_has_a_recipe_and_no_left_out_model_has() -> None:
    recipes = set(paths.shipped(paths.RECIPES))
    assert {entry.key.recipe for entry in load_references()} <= recipes
    for model in ("deepseek-v4", "zebra"):
        assert not [name for name in recipes if name.startswith(model)]


def why_no_point(entry: Reference) -> str:
    """The first word of the table's row for a number whose conditions no point has."""
    key = entry.key
    if key.task == "offline":
        return "offline"
    if key.gpu.startswith("MI"):
        return "AMD's"
    if None in (getattr(key, name) for name in HARD):
        return "conditions"
    if entry.metric == "fsdp_over_3d":
        return "FSDP"
    if entry.metric == "tflops_per_gpu" and entry.convention is None:
        return "TFLOPS"
    return next(word for word in (key.framework, key.precision) if word in ("torchtitan", "fp16"))


def test_every_other_number_has_a_point_or_a_reason() -> None:
    stated = [{name: row[name] for name in HARD} for row in point_rows((), None)]
    points = {must_agree(Conditions.model_validate(each)) for each in stated}
    speeds = [entry for entry in load_references() if entry.metric != "final_loss"]
    without = [entry for entry in speeds if must_agree(entry.key) not in points]
    counted = {line[0].split()[0].strip(",:"): int(line[1]) for line in rows(NO_POINT)}
    assert Counter(map(why_no_point, without)) == counted
    assert len(speeds) - len(without) > 900
