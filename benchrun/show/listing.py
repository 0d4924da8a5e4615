"""Rows of ``benchrun list`` as tables that fit a terminal. Imports nothing heavy."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from benchrun.vocabulary import DEGREES

from .table import Table

Rows = Sequence[dict[str, Any]]
ONLY_IN_JSON = ("task", "image")
"""Keys of a point's row."""
WORK = ("MBS", "BATCH", "SEQUENCE", "SETTINGS")
"""Columns of a layout that only trainings have, then that of all other workloads."""
WIDE = {
    "suites": ("recipes", "path"),
    "studies": ("recipes", "path"),
    "plans": ("recipes", "path"),
    "clusters": ("path",),
    "gpus": ("peak_fp4_tflops", "nic_gb_per_s", "nvlink_domain", "source"),
}
"""Keys that only --json shows, by inventory."""


def _gpus(listed: Sequence[str]) -> str:
    """The GPUs, of many the first three and how many more: ``H100 GB200 GB300 +4``."""
    if len(listed) < 4:
        return " ".join(listed)
    return f"{' '.join(listed[:3])} +{len(listed) - 3}"


def span(numbers: Iterable[int]) -> str:
    """Numbers in few letters: ``8-128`` if each is twice the one before, ``8..96`` if
    there are many others.
    """
    listed = sorted(set(numbers))
    if len(listed) > 2 and all(b == 2 * a for a, b in pairwise(listed)):
        return f"{listed[0]}-{listed[-1]}"
    if len(listed) < 4:
        return " ".join(map(str, listed))
    return f"{listed[0]}..{listed[-1]}"


def recipes_table(rows: Rows) -> Table:
    """One line per recipe."""
    titles = ("RECIPE", "TASK", "GPU", "PRECISION", "GPUS", "POINTS", "PUBLISHED", "FRAMEWORKS")
    lines = []
    for row in rows:
        lines.append(
            (
                row["recipe"],
                row["task"],
                _gpus(row["gpu"]),
                " ".join(sorted(row["precision"])),
                span(row["num_gpus"]),
                row["points"],
                row["published"] or None,
                len(row["framework"]),
            )
        )
    return _with_origin(Table(titles, lines), rows)


def _with_origin(table: Table, rows: Rows) -> Table:
    """``table`` with the GPU whose layouts the ``rows`` have, if that is another one."""
    if not any(row["derived"] for row in rows):
        return table
    origins = (row["derived"] for row in rows)
    derived = []
    for line, name in zip(table.rows, origins, strict=True):
        derived.append((*line, name and f"from {name}"))
    return Table((*table.titles, "DERIVED"), derived)


def layouts_table(rows: Rows) -> Table:
    """One line per layout, without the columns in which these rows have nothing; the
    name of the recipe only if there are several.
    """
    titles = ("RECIPE", "GPU", "PRECISION", "GPUS", "LAYOUT", *WORK, "PUBLISHED", "FRAMEWORKS")
    lines = []
    for row in rows:
        lines.append(
            (
                row["recipe"],
                row["gpu"],
                " ".join(sorted(row["precision"])),
                span(row["num_gpus"]),
                layout_words(row),
                row["mbs"],
                _batch(row),
                row["seq_length"],
                row["settings"] or None,
                row["published"] or None,
                " ".join(row["framework"]),
            )
        )
    empty = set()
    if len({row["recipe"] for row in rows}) == 1:
        empty.add("RECIPE")
    if not any(row["per_gpu"] for row in rows):
        empty.update(WORK[:3])
    if not any(row["settings"] for row in rows):
        empty.add("SETTINGS")
    columns = [index for index, title in enumerate(titles) if title not in empty]
    return _with_origin(Table(titles, lines).only(columns), rows)


def points_table(rows: Rows) -> Table:
    """One line per point."""
    left_out = (*ONLY_IN_JSON, *(() if any(row["derived"] for row in rows) else ("derived",)))
    names = [name for name in rows[0] if name not in left_out]
    return Table(names, [[row[name] for name in names] for row in rows], missing="None")


def layout_words(row: dict[str, Any]) -> str:
    """The degrees above one, and whether it is a proxy."""
    degrees = [f"{name}{row[name]}" for name in DEGREES if (row[name] or 1) > 1]
    return " ".join([*degrees, *(["proxy"] if row["proxy"] else [])]) or "dp only"


def _batch(row: dict[str, Any]) -> str | None:
    if row["gbs"] == [None]:
        return None
    if len(row["gbs"]) == 1 or row["per_gpu"] is None:
        return str(row["gbs"][0])
    return f"{row['per_gpu']:g}/GPU"


def inventory_table(rows: Rows, left_out: Sequence[str] = ()) -> Table:
    """Suites, clusters, GPUs, frameworks or runs: every key but those in ``left_out``
    is a column.
    """
    names = [name for name in rows[0] if name not in left_out]
    titles = [name.upper().replace("_", " ") for name in names]
    return Table(titles, [[_cell(row[name]) for name in names] for row in rows])


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(f"{key}={_cell(each)}" for key, each in value.items())
    if not isinstance(value, (list, tuple)):
        return value
    return " ".join(map(str, value))
