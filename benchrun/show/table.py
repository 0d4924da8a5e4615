"""One table of values, written as Markdown, CSV, JSON or aligned text. Values are
formatted here and nowhere before.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from math import isfinite
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchrun.logs.rows import Rows

LINE = 120
"""Letters of a line where no terminal says how many fit."""
SHORT = 13
"""Letters of a cell that is not wrapped."""
LEAST = 10
"""Letters of a column of longer cells."""
ROOM = 36
"""Letters that long cells share beyond these, before a column is left out."""
GAP = 2
"""Spaces between columns."""
DIGITS = 4
"""Decimal places of a number in CSV and JSON."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, and those that change the direction of text: a name could look
like another one.
"""


@dataclass(frozen=True)
class Table:
    """Headings, which are keys in CSV and JSON, and rows of values in their order; None
    is what was not measured.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[Any]]
    missing: str = ""
    """The text for None, for readers."""

    def only(self, columns: Sequence[int]) -> "Table":
        """Return a table of these columns alone."""
        rows = []
        for row in self.rows:
            rows.append([row[index] for index in columns])
        return Table([self.titles[index] for index in columns], rows, self.missing)

    def cells(self) -> list[list[str]]:
        """Rows for readers: six digits of a number."""
        found = []
        for row in self.rows:
            found.append([self.missing if value is None else _text(value) for value in row])
        return found

    def records(self) -> list[dict[str, Any]]:
        """Rows for JSON: one object each."""
        found = []
        for row in self.rows:
            found.append(dict(zip(self.titles, map(rounded, row), strict=True)))
        return found


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{rounded(value):.6g}"
    return visible(str(value))


def visible(text: str) -> str:
    """``text`` without control characters and without those that change its direction;
    lines and tabs stay.
    """
    return _UNSEEN.sub("", text)


def capitals(table: Table) -> Table:
    """The table as a terminal shows it: headings in capitals, ``-`` for what was not
    measured.
    """
    return Table([str(title).upper() for title in table.titles], table.rows, missing="-")


def markdown(table: Table) -> str:
    """The table in Markdown."""
    return markdown_rows([table.titles, ["---"] * len(table.titles), *table.cells()])


def markdown_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a table in Markdown."""
    return "".join(f"| {' | '.join(map(markdown_text, row))} |\n" for row in rows)


def markdown_text(text: str) -> str:
    """Text of a log or a recipe for Markdown: one line without control characters, in
    which no tag or cell begins.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split()).replace("<", "&lt;").replace("|", "&#124;")


def as_csv(table: Table) -> str:
    """The table as CSV; an empty cell is what was not measured."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.titles)
    writer.writerows(record.values() for record in table.records())
    return visible(text.getvalue())


def aligned(lines: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Cells padded to the width of their columns, except the last one: terminals and
    pipes want lines unwrapped.
    """
    listed = list(map(tuple, lines))
    widths = [max(map(len, cells)) for cells in zip(*listed, strict=True)][:-1]
    found = []
    for line in listed:
        found.append((*map(str.ljust, line, widths), line[-1]))
    return found


def plain(table: Table) -> str:
    """The table as aligned text, for terminals and grep."""
    return "".join(
        "  ".join(line).rstrip() + "\n" for line in aligned([table.titles, *table.cells()])
    )


def fitted(table: Table, width: int | None, spare: Sequence[str] = ()) -> str:
    """The table as text; if that is wider than ``width`` characters, long cells are
    wrapped within their columns.

    Columns of ``spare`` are left out, in this order, while there is too little room,
    and named below. A terminal that is too narrow even so gets the lines unwrapped.
    """
    whole = plain(table)
    if width is None or max(map(len, whole.splitlines()), default=0) <= width:
        return whole
    titles = [*table.titles]
    left_out = [title for title in spare if title in titles]
    for count in range(len(left_out) + 1):
        kept = [titles.index(title) for title in titles if title not in left_out[:count]]
        least = ROOM if count < len(left_out) else 0
        text = _within(table.only(kept), width, least)
        if text and count:
            named = ", ".join(left_out[:count]).lower()
            note = fill(f"left out for want of room, in --json: {named}", width)
            return f"{text}{note}\n"
        if text:
            return text
    return whole


def _within(table: Table, width: int, least: int) -> str | None:
    """The table with long cells wrapped; None if they would have less than ``least``
    letters more than they need.
    """
    sizes: list[int] = []
    long = {}
    for title, cells in zip(table.titles, zip(*table.cells(), strict=True), strict=True):
        letters = max(map(len, cells))
        if letters > SHORT:
            long[len(sizes)] = letters
            sizes.append(LEAST)
        else:
            sizes.append(_needed(str(title), cells))
    room = width - GAP * (len(sizes) - 1) - sum(sizes)
    if room < least:
        return None
    if 0 in long:  # names, which one copies
        words = max(len(word) for row in table.cells() for word in row[0].split())
        more = min(max(words - LEAST, 0), room)
        sizes[0] += more
        room -= more
    for index, letters in long.items():
        sizes[index] += room * letters // sum(long.values())
    return "".join(map(partial(_wrapped, sizes), [table.titles, *table.cells()]))


def _needed(title: str, cells: Sequence[str]) -> int:
    """Letters of a column whose title may be wrapped between words."""
    return max(*map(len, cells), *map(len, title.split()))


def _wrapped(sizes: Sequence[int], row: Sequence[str]) -> str:
    """The lines of one row."""
    parts = []
    for cell, size in zip(row, sizes, strict=True):
        parts.append(wrap(str(cell), size) or [""])
    lines = []
    for line in zip_longest(*parts, fillvalue=""):
        lines.append("  ".join(map(str.ljust, line, sizes)))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def rounded(value: Any) -> Any:
    """A float rounded to DIGITS places; ties are those of the product, as NumPy and
    pandas round.
    """
    if not isinstance(value, float):
        return value
    return round(value * 10**DIGITS) / 10**DIGITS


STEP_FORMATS = ("csv", "jsonl")


def step_lines(rows: "Rows", form: str) -> Iterator[str]:
    """Each row in the order of the log, as ``form`` (csv or jsonl); an unknown value is
    empty or null.
    """
    from benchrun.logs.rows import WRITTEN  # numpy, which a listing does without

    if form == "csv":
        yield ",".join(WRITTEN)
        for row in rows:
            values = map(row._asdict().get, WRITTEN)
            yield ",".join("" if value is None else repr(value) for value in values)
    else:
        for row in rows:
            finite = {}
            for name in WRITTEN:
                value = getattr(row, name)
                # JSON has neither NaN nor infinity.
                finite[name] = value if value is None or isfinite(value) else None
            yield json.dumps(finite)
