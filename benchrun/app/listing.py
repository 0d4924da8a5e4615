"""Every point of every recipe as rows. Imports nothing heavy: `benchrun list` answers at once."""

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


def list_points(recipes: Sequence[str] = (), gpu: str | None = None) -> list[dict[str, Any]]:
    """One row a point of ``recipes`` (of all if empty), with the number of references that it is comparable with.

    UserError for an unknown recipe, and for a ``gpu`` without a point.
    """
    published = defaultdict(list)
    for entry in load_references():
        published[besides_recipe(entry.key)].append(entry)
    files = [catalogue.recipe_file(name) for name in recipes or catalogue.names(paths.RECIPES)]
    rows = [row for file in files for row in listed(file, gpu)]
    if not rows:
        having = sorted({point.gpu for file in files for point in catalogue.points(file.recipe)})
        raise UserError(f"no point is for --gpu {gpu}", hint=f"there are points for {', '.join(having)}")
    counts: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = tuple(row[name] for name in HARD)
        if key not in counts:
            entries = published.get(key[1:])
            counts[key] = len(matching(Conditions(**dict(zip(HARD, key, strict=True))), entries)) if entries else 0
        row["reference"] = counts[key]
        del row["num_layers"], row["dimensions"]
    return rows
