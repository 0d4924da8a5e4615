"""Every point of every recipe as rows, from a cache: checking all recipes takes most of the time of `benchrun list`."""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from benchrun import paths
from benchrun.errors import UserError

Rows = list[dict[str, Any]]


def list_points(recipes: Sequence[str] = (), gpu: str | None = None) -> Rows:
    """One row per point of ``recipes`` (of all if empty), with the number of references that it is comparable with.

    UserError for an unknown recipe, and for a ``gpu`` without a point.
    """
    points = _cached_points()
    if points is None or not set(recipes) <= points.keys():
        points = _points(recipes)
        if not recipes:
            _cache(points)
    rows = [row for name in recipes or points for row in points[name]]
    chosen = [row for row in rows if gpu is None or row["gpu"].lower() == gpu.lower()]
    if not chosen:
        gpus = sorted({row["gpu"] for row in rows})
        raise UserError(f"no point is for --gpu {gpu}", hint=f"there are points for {', '.join(gpus)}")
    return chosen


def _points(recipes: Sequence[str]) -> dict[str, Rows]:
    """Rows by recipe, read from the recipes themselves."""
    from benchrun.compare.conditions import HARD, Conditions, besides_recipe
    from benchrun.compare.references import load_references, matching
    from benchrun.recipe import catalogue
    from benchrun.recipe.listing import listed

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


def _cached_points() -> dict[str, Rows] | None:
    """The cached rows; None where there are none, or a file that they follow from has changed."""
    with contextlib.suppress(OSError, RuntimeError, ValueError, KeyError, TypeError):
        cached = json.loads(_cache_file().read_bytes())
        if cached["files"] == _files():
            points: dict[str, Rows] = cached["points"]
            return points
    return None


def _cache(points: dict[str, Rows]) -> None:
    """Write the rows of all recipes, where the home directory allows it."""
    with contextlib.suppress(OSError, RuntimeError):
        file = _cache_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"files": _files(), "points": points}))
        draft.replace(file)


def _cache_file() -> Path:
    """One file per installation."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return folder / "benchrun" / f"points-{crc32(os.fsencode(paths.PACKAGE)):08x}.json"


def _files() -> dict[str, list[int]]:
    """Change time in ns and size of every file from which the rows follow, by path."""
    files = {}
    for root in (paths.RECIPES, paths.REFERENCE, paths.PACKAGE):
        for folder, _, names in os.walk(root):
            for path in (Path(folder, name) for name in names if name.endswith((".yaml", ".csv", ".py"))):
                stat = path.stat()
                files[str(path)] = [stat.st_mtime_ns, stat.st_size]
    return files
