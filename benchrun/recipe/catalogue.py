"""Recipes, models, clusters and suites: shipped ones by name, the user's by path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchrun import paths
from benchrun.errors import UserError
from benchrun.recipe.checked import checked
from benchrun.recipe.files import find, recipe_document
from benchrun.recipe.files import names as names
from benchrun.recipe.schema import PointGroup, Recipe, Suite, TrainingRecipe
from benchrun.recipe.yamlfile import Document, load
from benchrun.vocabulary import Precision


@dataclass(frozen=True)
class RecipeFile:
    """A checked recipe and its document, with the line of every value."""

    name: str
    recipe: Recipe
    document: Document


@dataclass(frozen=True)
class Point:
    """One tuned point: a group of the recipe at one GPU, precision, number of GPUs and framework."""

    index: int
    """Position of the group in the file."""
    group: PointGroup
    gpu: str
    precision: Precision
    num_gpus: int
    framework: str
    scaled_from: int | None = None
    """The listed number of GPUs whose layout this point has; None for a listed point."""

    @property
    def derived(self) -> str | None:
        """Why the layout is not published; None if it is."""
        if self.scaled_from is None:
            return self.group.derived
        basis = self.group.source or self.group.derived or "this recipe"
        return f"layout and batch per GPU of {self.scaled_from} GPUs, as in: {basis}"


def recipe_file(name: str) -> RecipeFile:
    """Load and check one recipe."""
    stem, document = recipe_document(name)
    data, recipe = _checked.get(stem, (None, None))
    if recipe is None or data != document:
        model = Recipe if document.get("workload", "training") != "training" else TrainingRecipe
        recipe = checked(model, document)
        _checked[stem] = document, recipe
    return RecipeFile(stem, recipe, document)


_checked: dict[str, tuple[Document, Recipe]] = {}


def training_file(name: str) -> tuple[RecipeFile, TrainingRecipe]:
    """Load and check the recipe of a training. UserError for one of another workload."""
    file = recipe_file(name)
    if not isinstance(file.recipe, TrainingRecipe):
        raise UserError(f"{file.name} is no training but of workload '{file.recipe.workload}'")
    return file, file.recipe


def is_suite(name: str) -> bool:
    """Whether ``name`` is a shipped suite or a suite file."""
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return "runs" in load(Path(name))
    return (paths.SUITES / f"{name}.yaml").is_file()


def suite_file(name: str) -> tuple[Suite, Document]:
    """The suite and its document, which has the line of every value."""
    document = load(find(name, paths.SUITES, "suite"))
    return checked(Suite, document), document


def points(recipe: Recipe) -> list[Point]:
    """Every point of a recipe, in the order of the file."""
    return [
        Point(index, group, gpu, precision, num_gpus, framework)
        for index, group in enumerate(recipe.points)
        for gpu in group.gpu
        for precision in group.precision
        for framework in group.framework or recipe.frameworks
        for num_gpus in group.num_gpus
    ]
