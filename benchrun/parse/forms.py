"""Blocks of step lines, read by regexes of whole lines.

Where a dialect has read a line, the line becomes a regex: the values in it become groups, all other numbers may change,
the rest is literal. So a line that matches has the values that the dialect would read in it, and one ``findall`` reads
a block. A line that matches no regex, or has a value outside the usual limits, is left to the dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import compress, pairwise
from typing import Any, NamedTuple

import numpy as np

from benchrun.parse.columns import NO_COUNT, NO_VALUE, Column
from benchrun.parse.dialect import LIMITS, Dialect, Reading, Record, Table
from benchrun.parse.lines import windows

LONGEST = 2048
"""Bytes of a line that is worth learning."""
MOST_FORMS, MOST_TRIES = 16, 16
"""Forms of one log; lines of a block that are tried."""
_FORM = "form"
MOST_USELESS = 8
"""Blocks in a row that forms did not help with, after which they are not used any more."""
MOST_ODD = 0.1
"""The share of a block's step lines that may be left to the dialect; if it is larger, all are."""
_TOKEN = re.compile(r"(\d+(?=%))|(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|( +)|((?<=%)\|[^|]*\|)|(.)", re.ASCII | re.DOTALL)

_TOKENS = ("", r"\d{1,3}", r"\d{1,15}(?:\.\d+)?(?:[eE][-+]?\d+)?", " +", r"\|[^|\n]*\|", "")
"""The regexes of a percentage, another number, blanks, and the picture of a progress bar."""


class _Form:
    """How the lines that differ in their numbers only are read."""

    def __init__(self, text: str, records: Sequence[Record]) -> None:
        values = sorted(
            ((value, record.sink) for record in records for value in record.values), key=lambda pair: pair[0].start
        )
        self.readings: list[tuple[str, str, Reading]] = [(sink, value.column, value.reading) for value, sink in values]
        pattern, end = "", 0
        for value, _ in values:
            pattern += _literal(text[end : value.start]) + f"({value.reading.pattern})"
            end = value.start + len(value.text)
        self.pattern = pattern + _literal(text[end:])

    def read(self, texts: Sequence[Sequence[str]]) -> tuple[Column, dict[str, dict[str, Column]], Column]:
        """Lines of this form, the columns of each sink, and which of the lines are usual; groups in, one a column.

        Lines of other forms have empty texts.
        """
        present = np.fromiter(map(bool, texts[0]), bool, len(texts[0]))
        if not present.all():
            texts = [list(compress(column, present)) for column in texts]
        lines = np.flatnonzero(present)
        usual = np.ones(len(lines), bool)
        columns: dict[str, dict[str, Column]] = {}
        for (sink, name, (parse, _, plain, scale)), column in zip(self.readings, texts, strict=True):
            read: Any = float if plain else parse
            values = np.fromiter(map(read, column), np.float64, len(lines))
            values = values if scale is None else scale(values)
            if not plain:
                usual &= ~np.isnan(values)
            if name in LIMITS:
                low, high, whole = LIMITS[name]
                usual &= (values >= low) & (values <= high)
                if whole:
                    usual &= values == np.floor(values)
                    values = np.where(usual, values, 0).astype(np.int64)
            columns.setdefault(sink, {})[name] = values
        return lines, columns, usual


class _Part(NamedTuple):
    """Rows of one form."""

    sink: str
    lines: Column
    columns: dict[str, Column]

    def between(self, first: int, end: int) -> _Part:
        """The rows of the lines after ``first`` and before ``end``."""
        inside = slice(*np.searchsorted(self.lines, [first + 1, end]))
        return _Part(self.sink, self.lines[inside], {name: column[inside] for name, column in self.columns.items()})


class Forms:
    """The forms of one dialect's lines."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._needles = tuple(needle.decode() for needle in dialect.step_needles)
        self._forms: list[_Form] = []
        self._useless = 0
        """Blocks in a row that had to be left to the dialect."""

    def read(self, text: str, number: int) -> int:
        """Read all step lines of a block of whole lines. ``number``: of its first line. Returns how many there were."""
        text, numbers = _split(text, number)
        lines = text.split("\n")
        table = self._matches(text)
        if self._learn(lines, table):
            table = self._matches(text)
        if table:
            odd, parts = self._parts(table)
            steps = len(odd) + sum(len(part.lines) for part in parts)
            if len(odd) <= MOST_ODD * steps:
                self._useless = 0
                for before, end in pairwise((-1, *sorted(odd), len(lines))):
                    self._take([part.between(before, end) for part in parts], lines, numbers)
                    self._by_line(range(end, min(end + 1, len(lines))), lines, numbers)
                return steps
        self._useless += 1
        steps_at = [at for at, line in enumerate(lines) if self._is_step(line)]
        self._by_line(steps_at, lines, numbers)
        return len(steps_at)

    def _by_line(self, chosen: Iterable[int], lines: list[str], numbers: Column) -> None:
        for at in chosen:
            for line in windows(lines[at], int(numbers[at]), self._needles):
                self._dialect.read(line)

    def _parts(self, table: list[tuple[str, ...]]) -> tuple[set[int], list[_Part]]:
        """The step lines that are left to the dialect, and the rows of each form."""
        odd = {at for at, line in enumerate(table[-1]) if line and self._is_step(line)}
        parts, first = [], 0
        for order, form in enumerate(self._forms):
            at, of_each, usual = form.read(table[first : first + len(form.readings)])
            first += len(form.readings)
            odd.update(at[~usual].tolist())
            numbers = np.full(int(usual.sum()), order)
            for sink, columns in of_each.items():
                usual_columns = {name: column[usual] for name, column in columns.items()}
                parts.append(_Part(sink, at[usual], usual_columns | {_FORM: numbers}))
        return odd, parts

    def _take(self, parts: list[_Part], lines: list[str], numbers: Column) -> None:
        """Rows of lines between two that the dialect reads itself."""
        parts = [part for part in parts if len(part.lines)]
        tables = []
        for sink in dict.fromkeys(part.sink for part in parts):
            at, columns = _joined([part for part in parts if part.sink == sink])
            form = columns.pop(_FORM)
            ends = lines[at[0]], lines[at[-1]]
            tables.append(Table(sink, {**columns, "line": numbers[at]}, at, form, ends))
        if tables and not self._dialect.take(tables):
            self._by_line(sorted({at for table in tables for at in table.at.tolist()}), lines, numbers)

    def _matches(self, text: str) -> list[tuple[str, ...]]:
        """For each line the groups of all forms, and what matches none, column by column."""
        if not self._forms or self._useless > MOST_USELESS:
            return []
        pattern = "|".join(form.pattern for form in self._forms)
        return list(zip(*re.compile(f"^(?:{pattern}|(.*))$", re.MULTILINE | re.ASCII).findall(text), strict=True))

    def _learn(self, lines: list[str], table: list[tuple[str, ...]]) -> bool:
        """Whether there are new forms."""
        before, tries = len(self._forms), 0
        for line in table[-1] if table else lines:
            if len(self._forms) == MOST_FORMS or tries == MOST_TRIES or self._useless > MOST_USELESS:
                break
            if line and self._is_step(line):
                if any(re.fullmatch(form.pattern, line, re.ASCII) for form in self._forms[before:]):
                    continue
                tries += 1
                records = list(self._dialect.records(line)) if len(line) <= LONGEST else []
                if _is_form(records):
                    self._forms.append(_Form(line, records))
        return len(self._forms) > before

    def _is_step(self, line: str) -> bool:
        return any(needle in line for needle in self._needles)


def _split(text: str, number: int) -> tuple[str, Column]:
    """The text with a line feed wherever a line, or a piece between carriage returns, ends; and the number of each."""
    text = text.replace("\r\n", "\n")
    if "\r" not in text:
        return text, number + np.arange(text.count("\n") + 1)
    characters = np.frombuffer(text.encode(), np.uint8)
    ends = characters[(characters == 10) | (characters == 13)]
    return text.replace("\r", "\n"), number + np.append(0, np.cumsum(ends == 10))


def _is_form(records: Sequence[Record]) -> bool:
    """Whether all lines like this one have these steps: one per sink."""
    rows = all(r.usual and r.needs in (None, *(value.column for value in r.values)) for r in records)
    return rows and 0 < len(records) == len({record.sink for record in records})


def _joined(parts: list[_Part]) -> tuple[Column, dict[str, Column]]:
    """The rows of several forms in the order of their lines."""
    if len(parts) == 1:
        return parts[0].lines, dict(parts[0].columns)
    at = np.concatenate([part.lines for part in parts])
    order = np.argsort(at)
    columns = {}
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        floats = any(part.columns.get(name, at).dtype.kind == "f" for part in parts)
        none = 0 if name in ("skipped", "nan") else NO_VALUE if floats else NO_COUNT
        each = [part.columns.get(name, np.full(len(part.lines), none)) for part in parts]
        columns[name] = np.concatenate(each)[order]
    return at[order], columns


def _literal(text: str) -> str:
    """A regex of this text with any other numbers, and any blanks where it has some."""
    return _TOKEN.sub(lambda match: _TOKENS[match.lastindex or 0] or re.escape(match[0]), text)
