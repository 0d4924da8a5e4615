"""What is comparable under two names: recipes that train one model, frameworks of one family."""

from __future__ import annotations

import csv
import functools

from benchrun import paths
from benchrun.compare.conditions import Conditions, shape_of
from benchrun.recipe import catalogue
from benchrun.recipe.schema import TrainingRecipe


def same_work(a: Conditions, b: Conditions) -> bool:
    """Whether both train one model: the same recipe, or recipes whose models have one shape.

    Llama 3 and Llama 3.1 differ in the positions beyond the sequence alone. Recipes of different tasks never train one
    model, whatever a log states. Adapters (lora) are part of a recipe and not of a shape, so such recipes are the same
    by name only.
    """
    if a.recipe == b.recipe:
        return True
    recipes = shipped_recipes()
    of_both = [recipes.get(each.recipe) for each in (a, b)]
    shapes = {each.shape or (recipe and shape_of(recipe.model)) for each, recipe in zip((a, b), of_both, strict=True)}
    tasks = {a.task, b.task, *(recipe.task for recipe in of_both if recipe)}
    return len(tasks) == 1 and "lora" not in tasks and len(shapes) == 1 and None not in shapes


@functools.cache
def shipped_recipes() -> dict[str, TrainingRecipe]:
    """Each shipped recipe of a training by name."""
    recipes = {name: catalogue.recipe_file(name).recipe for name in catalogue.names(paths.RECIPES)}
    return {name: recipe for name, recipe in recipes.items() if isinstance(recipe, TrainingRecipe)}


@functools.cache
def families() -> dict[str, str]:
    """Family of each framework that a reference may name."""
    with (paths.PACKAGE / "compare" / "families.csv").open(newline="") as file:
        return {row["framework"]: row["family"] for row in csv.DictReader(file)}


def related(one: str | None, other: str | None) -> bool:
    """Whether two frameworks belong to one family."""
    return one in families() and families().get(one or "") == families().get(other or "")
