"""What is comparable under two names: recipes that train one model, frameworks of one family."""

from __future__ import annotations

import csv
import functools

from benchrun import paths
from benchrun.compare.conditions import Conditions, shape_of
from benchrun.model import ModelShape
from benchrun.recipe import catalogue


def same_work(a: Conditions, b: Conditions) -> bool:
    """Whether both train one model: the same recipe, or recipes whose models have one shape.

    Llama 3 and Llama 3.1 differ in the positions beyond the sequence alone. Adapters (lora) are part of a recipe and
    not of a shape, so such recipes are the same by name only.
    """
    if a.recipe == b.recipe:
        return True
    models = shipped_models()
    shapes = {each.shape or (shape_of(models[each.recipe]) if each.recipe in models else None) for each in (a, b)}
    return "lora" not in (a.task, b.task) and len(shapes) == 1 and None not in shapes


@functools.cache
def shipped_models() -> dict[str, ModelShape]:
    """The model of each shipped recipe."""
    return {name: catalogue.recipe_file(name).recipe.model for name in catalogue.names(paths.RECIPES)}


@functools.cache
def families() -> dict[str, str]:
    """Family of each framework that a reference may name."""
    with (paths.PACKAGE / "compare" / "families.csv").open(newline="") as file:
        return {row["framework"]: row["family"] for row in csv.DictReader(file)}


def related(one: str | None, other: str | None) -> bool:
    """Whether two frameworks belong to one family."""
    return one in families() and families().get(one or "") == families().get(other or "")
