"""Frameworks of published numbers, and what they are built on. The table also lists frameworks that cannot be run."""

from __future__ import annotations

import csv
import functools

from benchrun import paths


@functools.cache
def families() -> dict[str, str]:
    """Family of each framework that a reference may name."""
    with (paths.PACKAGE / "compare" / "families.csv").open(newline="") as file:
        return {row["framework"]: row["family"] for row in csv.DictReader(file)}


def related(one: str | None, other: str | None) -> bool:
    """Whether two frameworks belong to one family."""
    return one in families() and families().get(one or "") == families().get(other or "")
