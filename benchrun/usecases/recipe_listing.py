"""Points in few rows: one per recipe, or one per layout. Imports as little as the
listing of all points.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchrun.vocabulary import DEGREES

from .listing import Rows, point_rows

LAYOUT = ("recipe", "gpu", "proxy", "seq_length", "mbs", "per_gpu", *DEGREES, "settings")
"""Fields that all points of one line of a recipe share."""


def list_recipes(
    recipes: Sequence[str] = (), gpu: str | None = None, cluster: str | None = None
) -> Rows:
    """One row per recipe: what its points are for, and how many published numbers there
    are for them.

    UserError as `list_points`.
    """
    found = []
    for recipe, rows in _grouped(point_rows(recipes, gpu, cluster), lambda row: row["recipe"]):
        found.append(
            {
                "recipe": recipe,
                "task": rows[0]["task"],
                "gpu": _distinct(rows, "gpu"),
                "precision": _distinct(rows, "precision"),
                "num_gpus": _distinct(rows, "num_gpus"),
                "framework": _distinct(rows, "framework"),
                "points": len(rows),
                "published": published_count(rows),
                "derived": rows[0]["derived"],
            }
        )
    return found


def list_layouts(
    recipes: Sequence[str], gpu: str | None = None, cluster: str | None = None
) -> Rows:
    """One row per layout of each recipe: points that differ only in precision, number
    of GPUs or framework share it.
    """
    every = point_rows(recipes, gpu, cluster)
    rows = [row | {"per_gpu": _per_gpu(row), "settings": row.get("settings")} for row in every]
    lines = []
    for _, group in _grouped(rows, lambda row: tuple(row[name] for name in LAYOUT)):
        lines.append(
            {name: group[0][name] for name in LAYOUT}
            | {
                name: _distinct(group, name)
                for name in ("precision", "num_gpus", "framework", "gbs")
            }
            | {"published": published_count(group), "derived": group[0]["derived"]}
        )
    return sorted(lines, key=lambda line: (line["recipe"], line["gpu"], line["proxy"]))


def published_count(rows: Rows) -> int:
    """Number of published numbers that are comparable with ``rows``; one that several
    frameworks share counts once.
    """
    return sum({row["conditions"]: row["reference"] for row in rows}.values())


def _per_gpu(row: dict[str, Any]) -> float | None:
    """Sequences per GPU."""
    return row["gbs"] / row["num_gpus"] if row["gbs"] else None


def _distinct(rows: Rows, name: str) -> list[Any]:
    values = dict.fromkeys(row[name] for row in rows)
    if name in ("num_gpus", "gbs") and None not in values:
        return sorted(values)
    return list(values)


def _grouped(rows: Rows, key: Callable[[dict[str, Any]], Any]) -> Iterable[tuple[Any, Rows]]:
    groups: dict[Any, Rows] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups.items()
