"""One table of values, written as Markdown, CSV, JSON or aligned text. Values are formatted here and nowhere before."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchrun.parse.rows import Rows, Step


DIGITS = 4
"""Decimal places of a number in CSV and JSON."""


@dataclass(frozen=True)
class Column:
    """One column."""

    name: str
    """Key in CSV and JSON."""
    title: str = ""
    """Heading for readers; ``name`` where empty."""
    text: Callable[[Any], str] = str
    """A value for readers."""


def number(form: str, suffix: str = "") -> Callable[[float], str]:
    """A formatter of numbers: ``number(".1f", " %")``."""
    return lambda value: f"{value:{form}}{suffix}"


def column(title: str, form: str = "", suffix: str = "") -> Column:
    """A column for readers alone."""
    return Column(title, title, number(form, suffix) if form else str)


@dataclass(frozen=True)
class Table:
    """Columns, and rows of values in their order; None is what was not measured."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]
    missing: str = ""
    """In place of None, for readers."""

    def titles(self) -> list[str]:
        """Headings for readers."""
        return [column.title or column.name for column in self.columns]

    def cells(self) -> Iterator[list[str]]:
        """Rows for readers."""
        for row in self.rows:
            pairs = zip(self.columns, row, strict=True)
            yield [self.missing if value is None else column.text(value) for column, value in pairs]

    def records(self) -> list[dict[str, Any]]:
        """Rows for JSON: one object each."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, map(rounded, row), strict=True)) for row in self.rows]


def markdown(table: Table) -> str:
    """The table in Markdown."""
    lines = [table.titles(), ["---"] * len(table.columns), *table.cells()]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def as_csv(table: Table) -> str:
    """The table as CSV; an empty cell is what was not measured."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in table.columns)
    writer.writerows(record.values() for record in table.records())
    return text.getvalue()


def aligned(lines: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Cells padded to the width of their columns, but for the last one: terminals and pipes want lines unwrapped."""
    listed = [tuple(line) for line in lines]
    widths = [max(map(len, cells)) for cells in zip(*listed, strict=True)][:-1]
    return [(*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]) for line in listed]


def plain(table: Table) -> str:
    """The table as aligned text, for terminals and grep."""
    return "".join("  ".join(line).rstrip() + "\n" for line in aligned([table.titles(), *table.cells()]))


def rounded(value: Any) -> Any:
    """A float rounded to DIGITS places; ties are those of the product, as NumPy and pandas round."""
    return round(value * 10**DIGITS) / 10**DIGITS if isinstance(value, float) else value


STEP_FORMATS = ("csv", "jsonl")


def step_lines(rows: Rows, form: str) -> Iterator[str]:
    """Each row in the order of the log, as ``form`` (csv or jsonl); an unknown value is empty or null."""
    if form == "csv":
        from benchrun.parse.rows import Step  # numpy, which a listing does without

        yield ",".join(Step._fields)
        for row in rows:
            yield ",".join("" if value is None else repr(value) for value in row)
    else:
        for row in rows:
            yield json.dumps(finite(row))


def finite(row: Step) -> dict[str, int | float | None]:
    """A row for JSON, which has neither NaN nor infinity."""
    return {name: value if value is None or isfinite(value) else None for name, value in row._asdict().items()}
