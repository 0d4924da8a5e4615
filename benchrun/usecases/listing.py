"""Every point of every recipe as rows, from the table that
`benchrun.usecases.point_table` made: it answers at once.
"""

import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchrun import paths
from benchrun.errors import UserError
from benchrun.recipes.files import cluster_document, is_own_file
from benchrun.vocabulary import DEGREES, HARD

POINTS = paths.RECIPES / "points.jsonl"
COLUMNS = (
    "recipe",
    "task",
    "framework",
    "gpu",
    "precision",
    "num_gpus",
    "proxy",
    "seq_length",
    "mbs",
    "gbs",
    *DEGREES,
    "dp",
    "image",
)
"""Conditions of a point; null if its workload has no such condition."""
Rows = list[dict[str, Any]]


def list_points(
    recipes: Sequence[str] = (), gpu: str | None = None, cluster: str | None = None
) -> Rows:
    """One row per point of ``recipes`` (of all if empty), with the number of references
    that it is comparable with.

    Of a ``gpu`` its own points, and of ``recipes``, or if it has none, also those that
    it can borrow; of these ``derived`` is the GPU whose points they are. UserError for
    a wrong recipe of the user's own, for an unknown one, and for a ``gpu`` that can
    borrow no point. ``cluster`` may state the GPU's hardware.
    """
    names = (*COLUMNS, "reference", "derived")
    found = []
    for row in point_rows(recipes, gpu, cluster):
        found.append({name: row[name] for name in names})
    return found


def gpu_of(cluster: str) -> str:
    """The GPU of a cluster profile: a shipped name or a file."""
    return str(cluster_document(cluster).get("gpu"))


def point_rows(recipes: Sequence[str], gpu: str | None, cluster: str | None = None) -> Rows:
    """The rows of `list_points`, each with ``conditions``: what a published number must
    agree with.
    """
    by_recipe = []
    for name in recipes or paths.shipped(paths.RECIPES):
        by_recipe.append(_rows(name, cluster))
    rows = []
    for each in by_recipe:
        for row in each:
            rows.append(row | {"derived": None})
    chosen = [row for row in rows if gpu is None or row["gpu"].lower() == gpu.lower()]
    if gpu is not None and (recipes or not chosen):
        chosen = []
        for each in by_recipe:
            chosen += _of_gpu(each, gpu, cluster)
    if not chosen:
        raise UserError(f"no point is for --gpu {gpu}", hint=_advice(rows, str(gpu), cluster))
    return chosen


def _of_gpu(rows: Rows, gpu: str, cluster: str | None) -> Rows:
    """The rows of a recipe for ``gpu``, then those that it borrows, as
    `benchrun.recipes.select` does for one point.
    """
    from benchrun.recipes.select import lenders, wanted_gpu

    own = []
    for row in rows:
        if row["gpu"].lower() == gpu.lower():
            own.append(row | {"derived": None})
    device = wanted_gpu(gpu, cluster)
    if device is None:
        return own
    for name in lenders([row["gpu"] for row in rows], device):
        lent = (row for row in rows if row["gpu"] == name and device.peak_tflops(row["precision"]))
        # No published number is for these conditions: the GPU is another one.
        changed = {"gpu": device.name, "derived": name, "reference": 0}
        own = [
            *own,
            *(row | changed for row in lent if not any(_answers(other, row) for other in own)),
        ]
    return own


def _answers(own: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a GPU's row ``own`` is, or scales up to, the point of ``row``, so that
    none is borrowed.
    """
    if own["derived"] == row["gpu"] or any(
        own[key] != row[key] for key in ("framework", "precision")
    ):
        return False
    scales = own.get("scales") and own["num_gpus"] < row["num_gpus"]
    return bool(scales or own["num_gpus"] == row["num_gpus"])


def _advice(rows: Rows, gpu: str, cluster: str | None) -> str:
    """The GPUs that have points, and why ``gpu`` can borrow none of them."""
    from benchrun.recipes.select import cannot_borrow, wanted_gpu

    tuned = f"there are points for {', '.join(sorted({row['gpu'] for row in rows}))}"
    device = wanted_gpu(gpu, cluster)
    why = "benchrun list --gpus has those that may borrow them"
    if device:
        why = cannot_borrow(device)
    return f"{tuned}; {why}"


def _rows(recipe: str, cluster: str | None) -> Rows:
    """The rows of one recipe: of the table, or resolved if the recipe is the user's
    own.
    """
    table = {} if is_own_file(recipe) else _table()
    rows = table.get(recipe)
    if rows is None:
        from benchrun.recipes.catalogue import recipe_file

        from .point_table import resolved_rows

        rows = resolved_rows(recipe_file(recipe), cluster)
    return [row | {"conditions": tuple(map(row.get, HARD))} for row in rows]


@functools.cache
def _table() -> dict[str, Rows]:
    """The rows of every shipped recipe by its name; empty if a recipe or reference has
    changed since.
    """
    with POINTS.open(encoding="utf-8") as file:
        head = json.loads(file.readline())
        if head["inputs"] != inputs_digest():
            return {}
        table = defaultdict(list)
        for line in file:
            row = dict(zip(head["columns"], json.loads(line), strict=True))
            table[row["recipe"]].append(row)
    return table


def inputs_digest() -> str:
    """The digest of all files from which the table follows: recipes, models, clusters,
    published numbers.
    """
    digest = hashlib.sha256()
    folders = (paths.RECIPES, paths.MODELS, paths.CLUSTERS)
    files = [path for folder in folders for path in folder.glob("*.yaml")]
    for path in sorted([*files, *paths.REFERENCE.glob("*.csv")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
