"""The rows of ``benchrun list``, one per point, made by the typed resolver:
recipes/points.jsonl holds them.

``python -m benchrun.usecases.point_table`` writes the file again after a change of a
recipe or a reference.
"""

import functools
import json
from collections import defaultdict
from typing import Any

from benchrun import paths
from benchrun.judge.conditions import Conditions, besides_recipe, conditions
from benchrun.judge.references import Reference, load_references, matching
from benchrun.recipes.catalogue import Point, RecipeFile, points, recipe_file
from benchrun.recipes.resolve import resolve_point
from benchrun.runspec.spec import RunSpec
from benchrun.vocabulary import DEGREES

from .listing import COLUMNS, POINTS, Rows, gpu_of, inputs_digest


def resolved_rows(file: RecipeFile, cluster: str | None = None) -> Rows:
    """One row per point of a recipe. UserError names the first point that cannot be
    resolved.

    Points for the GPU of ``cluster`` are resolved there, others on the shipped cluster
    of their GPU.
    """
    own_gpu = None
    if cluster:
        own_gpu = gpu_of(cluster)
    rows = []
    for point in points(file.recipe):
        spec = resolve_point(
            file, point, cluster if point.gpu == own_gpu else None, to_launch=False
        )
        rows.append(_row(spec, point))
    return rows


def _row(spec: RunSpec, point: Point) -> dict[str, Any]:
    """The columns of a point, its settings, and how many published numbers are
    comparable with it.
    """
    own = conditions(spec)
    row = {name: getattr(spec, name, None) for name in COLUMNS}
    layout = getattr(spec, "layout", spec)
    row |= {degree: getattr(layout, degree, None) for degree in DEGREES}
    row["proxy"] = getattr(spec, "proxy", False)
    row |= own.model_dump(mode="json", include={"num_layers", "dimensions", "settings"})
    row["scales"] = point.group.scales_to(2 * point.num_gpus)
    row["reference"] = _count(own)
    return row


def _count(own: Conditions) -> int:
    """Number of published numbers that are comparable with ``own``."""
    return len(matching(own, _by_conditions()[besides_recipe(own)]))


@functools.cache
def _by_conditions() -> dict[Any, list[Reference]]:
    """The published numbers by all conditions but the recipe."""
    grouped = defaultdict(list)
    for reference in load_references():
        grouped[besides_recipe(reference.key)].append(reference)
    return grouped


def table_text() -> str:
    """The text of recipes/points.jsonl: the digest of its inputs and the columns, then
    a line per point.
    """
    lines = []
    names = []
    for name in paths.shipped(paths.RECIPES):
        for row in resolved_rows(recipe_file(name)):
            names = list(row)
            lines.append(list(row.values()))
    head = {"inputs": inputs_digest(), "columns": names}
    return "".join(json.dumps(line) + "\n" for line in [head, *lines])


if __name__ == "__main__":
    POINTS.write_text(table_text(), encoding="utf-8")
