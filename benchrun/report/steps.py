"""Step rows as text: CSV or JSON lines, one row at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite

from benchrun.parse.rows import Rows, Step

FORMATS = ("csv", "jsonl")


def lines(rows: Rows, form: str) -> Iterator[str]:
    """Each row in the order of the log, as ``form`` (csv or jsonl); an unknown value is empty or null."""
    if form == "csv":
        yield ",".join(Step._fields)
        for row in rows:
            yield ",".join("" if value is None else repr(value) for value in row)
    else:
        for row in rows:
            yield json.dumps(plain(row))


def plain(row: Step) -> dict[str, int | float | None]:
    """A row for JSON, which has neither NaN nor infinity."""
    return {name: value if value is None or isfinite(value) else None for name, value in row._asdict().items()}
