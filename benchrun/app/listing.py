"""Every point of every recipe as rows. Imports no checks of recipes and references: a listing answers at once."""

import csv
import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchrun import paths
from benchrun.errors import UserError
from benchrun.recipe import files
from benchrun.recipe.files import COLUMNS, cluster_document, differences, is_own_file, recipe_document
from benchrun.recipe.yamlfile import Document
from benchrun.vocabulary import HARD

if TYPE_CHECKING:
    from benchrun.recipe.catalogue import RecipeFile

Rows = list[dict[str, Any]]


def list_points(recipes: Sequence[str] = (), gpu: str | None = None, cluster: str | None = None) -> Rows:
    """One row per point of ``recipes`` (of all if empty), with the number of references that it is comparable with.

    Of a ``gpu`` its own points, and of ``recipes``, or where it has none, also those that it can borrow; of these
    ``derived`` is the GPU whose points they are.
    UserError for a wrong recipe of the user's own, for an unknown one, and for a ``gpu`` that can borrow no point.
    ``cluster`` may state the GPU's hardware.
    """
    names = (*COLUMNS, "reference", "derived")
    return [{name: row[name] for name in names} for row in point_rows(recipes, gpu, cluster)]


def gpu_of(cluster: str) -> str:
    """The GPU of a cluster profile: a shipped name or a file."""
    return str(cluster_document(cluster).get("gpu"))


def point_rows(recipes: Sequence[str], gpu: str | None, cluster: str | None = None) -> Rows:
    """The rows of `list_points`, each with ``conditions``: what a published number must agree with."""
    by_recipe = [_rows(name) for name in recipes or paths.shipped(paths.RECIPES)]
    rows = [row | {"derived": None} for each in by_recipe for row in each]
    chosen = [row for row in rows if gpu is None or row["gpu"].lower() == gpu.lower()]
    if gpu is not None and (recipes or not chosen):
        chosen = [row for each in by_recipe for row in _of_gpu(each, gpu, cluster)]
    if not chosen:
        raise UserError(f"no point is for --gpu {gpu}", hint=_advice(rows, str(gpu), cluster))
    return chosen


def _of_gpu(rows: Rows, gpu: str, cluster: str | None) -> Rows:
    """The rows of a recipe for ``gpu``, then those that it borrows, as `benchrun.recipe.select` does for one point."""
    from benchrun.recipe.select import lenders, wanted_gpu

    own = [row | {"derived": None} for row in rows if row["gpu"].lower() == gpu.lower()]
    device = wanted_gpu(gpu, cluster)
    if device is None:
        return own
    for name in lenders([row["gpu"] for row in rows], device):
        lent = (row for row in rows if row["gpu"] == name and device.peak_tflops(row["precision"]))
        # No published number is for these conditions: the GPU is another one.
        changed = {"gpu": device.name, "derived": name, "reference": 0}
        own = [*own, *(row | changed for row in lent if not any(_answers(other, row) for other in own))]
    return own


def _answers(own: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a GPU's row ``own`` is, or scales up to, the point of ``row``, so that none is borrowed."""
    if own["derived"] == row["gpu"] or any(own[key] != row[key] for key in ("framework", "precision")):
        return False
    scales = own.get("scales") and own["num_gpus"] < row["num_gpus"]
    return bool(scales or own["num_gpus"] == row["num_gpus"])


def _advice(rows: Rows, gpu: str, cluster: str | None) -> str:
    """The GPUs that have points, and why ``gpu`` can borrow none of them."""
    from benchrun.recipe.select import cannot_borrow, wanted_gpu

    tuned = f"there are points for {', '.join(sorted({row['gpu'] for row in rows}))}"
    device = wanted_gpu(gpu, cluster)
    why = cannot_borrow(device) if device else "benchrun list --gpus has those that may borrow them"
    return f"{tuned}; {why}"


def _rows(recipe: str) -> Rows:
    """The rows of one recipe, which is checked where it is the user's own."""
    if is_own_file(recipe):
        from benchrun.recipe.catalogue import recipe_file

        if (file := recipe_file(recipe)).recipe.workload != "training":
            return _resolved(file)
        _check_models(file.document)
        stated = file.recipe.model_dump(mode="json", exclude_unset=True)
        every = files.point_rows(file.name, stated | {"model": file.document["model"]})
    else:
        every = files.listed(recipe)
    rows = []
    for row in every:
        conditions = tuple(map(row.get, HARD))
        rows.append(row | {"reference": _references(*conditions), "conditions": conditions})
    return rows


def _check_models(document: Document) -> None:
    """UserError where the dimensions of a group make no model."""
    from benchrun.model import ModelShape
    from benchrun.recipe.catalogue import checked

    for group in document["points"]:
        if changes := group.get("model"):
            whole = Document()
            for model in (document["model"], changes):
                whole.put(("model",), model, model.place)
            checked(ModelShape, whole["model"])


def _resolved(file: "RecipeFile") -> Rows:
    """The rows of another workload, each point resolved; what only a training has is None."""
    from benchrun.comparison.conditions import conditions
    from benchrun.recipe.catalogue import points
    from benchrun.recipe.resolve import resolve_point

    specs = [resolve_point(file, point) for point in points(file.recipe)]
    return [
        {name: getattr(spec, name, None) for name in COLUMNS}
        | {
            "proxy": getattr(spec, "proxy", False),
            "reference": _references(*(getattr(conditions(spec), name) for name in HARD)),
            "conditions": spec.identity(),
        }
        for spec in specs
    ]


def _text(value: Any) -> str:
    """A condition as the reference files have it; empty where nothing is stated."""
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@functools.cache
def _references(recipe: str, task: str, *conditions: Any) -> int:
    """How many published numbers `benchrun.comparison.references.matching` finds."""
    trained = not conditions[-1]  # another workload has settings, and its recipes no other names
    return sum(
        publisher == recipe or (trained and metric != "final_loss" and _same_model(publisher, recipe, task))
        for publisher, metric in _published().get((task, *map(_text, conditions)), ())
    )


@functools.cache
def _published() -> dict[tuple[str, ...], list[tuple[str, str]]]:
    """Recipe and metric of every published number, by its other conditions."""
    published: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for path in paths.REFERENCE.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                published[tuple(row.get(name, "") for name in HARD[1:])].append((row["recipe"], row["metric"]))
    return published


@functools.cache
def _same_model(one: str, other: str, task: str) -> bool:
    """Whether two shipped recipes train one model: see `benchrun.comparison.references.same_work`."""
    if task == "lora" or not {one, other} <= {*paths.shipped(paths.RECIPES)}:
        return False
    recipes = [recipe_document(name)[1] for name in (one, other)]
    if any(recipe.get("workload", "training") != "training" for recipe in recipes):
        return False
    model, whole = (recipe["model"] for recipe in recipes)
    # The size first: dimensions that one of two models leaves out are filled in by an import that takes 0.1 s.
    same_size = all(model[size] == whole[size] for size in ("hidden_size", "ffn_hidden_size", "vocab_size"))
    same_size = same_size and ("moe" in model) == ("moe" in whole)
    return same_size and all(recipe["task"] == task for recipe in recipes) and not differences(model, whole)
