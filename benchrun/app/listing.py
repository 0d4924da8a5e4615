"""Every point of every recipe as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchrun import paths
from benchrun.compare.conditions import HARD, Conditions, besides_recipe
from benchrun.compare.references import load_references, matching
from benchrun.errors import UserError
from benchrun.recipe import catalogue
from benchrun.recipe.listing import listed

Rows = list[dict[str, Any]]


def list_points(recipes: Sequence[str] = (), gpu: str | None = None) -> Rows:
    """One row per point of ``recipes`` (of all if empty), with the number of references that it is comparable with.

    UserError for an unknown recipe, and for a ``gpu`` without a point.
    """
    points = _points(recipes)
    rows = [row for name in recipes or points for row in points[name]]
    chosen = [row for row in rows if gpu is None or row["gpu"].lower() == gpu.lower()]
    if not chosen:
        gpus = sorted({row["gpu"] for row in rows})
        raise UserError(f"no point is for --gpu {gpu}", hint=f"there are points for {', '.join(gpus)}")
    return chosen


def _points(recipes: Sequence[str]) -> dict[str, Rows]:
    """Rows by recipe, read from the recipes themselves."""
    published = defaultdict(list)
    for entry in load_references():
        published[besides_recipe(entry.key)].append(entry)
    points = {name: list(listed(catalogue.recipe_file(name))) for name in recipes or catalogue.names(paths.RECIPES)}
    counts: dict[tuple[Any, ...], int] = {}
    for row in (row for rows in points.values() for row in rows):
        key = tuple(row[name] for name in HARD)
        if key not in counts:
            entries = published.get(key[1:])
            counts[key] = len(matching(Conditions(**dict(zip(HARD, key, strict=True))), entries)) if entries else 0
        row["reference"] = counts[key]
        del row["num_layers"], row["dimensions"]
    return points
