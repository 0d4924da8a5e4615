"""Blocks of step lines, read by regexes of whole lines.

Where a dialect has read a line, the line becomes a regex: the values in it become
groups, all other numbers may change, the rest is literal. So a line that matches has
the values that the dialect would read in it, and one ``findall`` reads the lines with
one needle. A line that matches no regex, or has a value outside the limits, is left to
the dialect.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, pairwise
from typing import Any

import numpy as np

from .columns import NO_COUNT, Column
from .dialect import Dialect, Record, Table
from .lines import windows
from .numerals import LIMITS
from .stamps import MOST_OF_A_BLOCK

LONGEST = 2048
"""Bytes of a line that is worth learning."""
MOST_FORMS, MOST_TRIES = 16, 16
"""Forms of the lines with one needle; lines of a block that are tried."""
MOST_USELESS = 8
"""Blocks in a row that forms did not help with, after which they are not used any more.
"""
MOST_ODD = 0.1
"""The share of a block's step lines that may be left to the dialect; if it is larger,
all are.
"""
_TOKEN = re.compile(
    r"(\d+(?=%))|(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|( +)|((?<=%)\|[^|]*\|)|(.)", re.ASCII | re.DOTALL
)
_TOKENS = ("", r"\d{1,3}", r"\d{1,15}(?:\.\d+)?(?:[eE][-+]?\d+)?", " +", r"\|[^|\n]*\|", "")
"""The regexes of a percentage, another number, blanks, and the picture of a progress
bar.
"""


class _Form:
    """Reader of the lines that differ in their numbers only."""

    def __init__(self, text: str, records: Sequence[Record]) -> None:
        values = [(value, record.sink) for record in records for value in record.values]
        self.values = sorted(values, key=lambda pair: pair[0].start)
        self.longest_loss = ""
        """The longest text of a loss, which shows how many digits are printed."""
        self.pattern, end = "", 0
        for value, _ in self.values:
            self.pattern += _literal(text[end : value.start]) + f"({value.reading.pattern})"
            end = value.start + len(value.text)
        self.pattern += _literal(text[end:])

    def read(
        self, at: Column, groups: Sequence[Sequence[str]], texts: Sequence[str]
    ) -> tuple[list[Table], Column]:
        """The steps of the lines ``at``, one table per sink, and which of the lines are
        not usual.
        """
        columns: dict[str, dict[str, Column]] = {}
        usual = np.ones(len(at), bool)
        for (value, sink), group in zip(self.values, groups, strict=True):
            parse, _, plain, scale = value.reading
            read: Any = float if plain else parse
            numbers = np.fromiter(map(read, group), np.float64, len(at))
            numbers = numbers if scale is None else scale(numbers)
            if value.column == "loss" and group:
                self.longest_loss = max(self.longest_loss, *group, key=len)
            if not plain:
                usual &= ~np.isnan(numbers)
            if value.column in LIMITS:
                low, high, whole = LIMITS[value.column]
                usual &= (numbers >= low) & (numbers <= high)
                if whole:
                    usual &= numbers == np.floor(numbers)
                    numbers = np.where(usual, numbers, 0).astype(np.int64)
            columns.setdefault(sink, {})[value.column] = numbers
        return [
            Table(sink, at, arrays, texts).chosen(usual) for sink, arrays in columns.items()
        ], at[~usual]


class Forms:
    """The forms of one dialect's lines."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._forms: dict[str, list[_Form]] = {
            needle.decode(): [] for needle in dialect.step_needles
        }
        """Needle -> the forms of the lines with it, and with none of the needles before
        it.
        """
        self._useless = 0
        """Blocks in a row that had to be left to the dialect."""

    def read(self, text: str, number: int) -> int:
        """Read all step lines of a block of whole lines. ``number``: of its first line.
        Returns how many there were.
        """
        text, numbers = _split(text, number)
        lines = text.split("\n")
        steps, odd, tables = self._steps(lines), list[int](), list[Table]()
        count = sum(map(len, steps.values()))
        if self._useless <= MOST_USELESS:
            for needle, at in steps.items():
                more_tables, more_odd = self._alike(self._forms[needle], at, lines)
                tables += more_tables
                odd += more_odd
        if tables and len(odd) <= MOST_ODD * count:
            self._useless = 0
            for before, end in pairwise((-1, *sorted(odd), len(lines))):
                between = (
                    table.chosen(slice(*np.searchsorted(table.at, [before + 1, end])))
                    for table in tables
                )
                self._take([table for table in between if len(table.at)], lines, numbers)
                self._by_line(range(end, min(end + 1, len(lines))), lines, numbers)
        else:
            self._useless += 1
            self._by_line(sorted(index for at in steps.values() for index in at), lines, numbers)
        return count

    def _by_line(self, chosen: Iterable[int], lines: list[str], numbers: Column) -> None:
        for at in chosen:
            for line in windows(lines[at], int(numbers[at]), tuple(self._forms)):
                self.dialect.stamps.take(line.number, line.text)
                self.dialect.read(line)

    def _steps(self, lines: list[str]) -> dict[str, list[int]]:
        """Needle -> the lines with it that have none of the needles before it."""
        steps: dict[str, list[int]] = {}
        taken: set[int] = set()
        for needle in self._forms:
            at = [index for index, line in enumerate(lines) if needle in line]
            steps[needle] = [index for index in at if index not in taken] if taken else at
            taken.update(at)
        return {needle: at for needle, at in steps.items() if at}

    def _alike(
        self, forms: list[_Form], at: list[int], lines: list[str]
    ) -> tuple[list[Table], list[int]]:
        """The steps of the lines ``at`` that have a form, and which lines have none."""
        texts = [lines[index] for index in at]
        groups = _matches(forms, texts)
        if self._learn(forms, filter(None, groups[-1])):
            groups = _matches(forms, texts)
        odd, tables = list(compress(at, groups[-1])), []
        for form in forms:
            of_form, groups = groups[: len(form.values)], groups[len(form.values) :]
            inside = np.array(list(compress(at, of_form[0])), np.int64)
            if len(inside) < len(at):
                of_form = [tuple(compress(group, of_form[0])) for group in of_form]
            more_tables, more_odd = form.read(inside, of_form, lines)
            self.dialect.loss_of(form.longest_loss)
            tables += more_tables
            odd += more_odd.tolist()
        return tables, odd

    def _learn(self, forms: list[_Form], lines: Iterable[str]) -> bool:
        """Whether there are new forms."""
        before, tries = len(forms), 0
        for line in lines:
            if len(forms) == MOST_FORMS or tries == MOST_TRIES:
                break
            if any(re.fullmatch(form.pattern, line, re.ASCII) for form in forms[before:]):
                continue
            tries += 1
            records = list(self.dialect.records(line)) if len(line) <= LONGEST else []
            if _is_form(records):
                forms.append(_Form(line, records))
        return len(forms) > before

    def _take(self, tables: list[Table], lines: list[str], numbers: Column) -> None:
        """Rows of lines between two that the dialect reads itself."""
        sinks = dict.fromkeys(table.sink for table in tables)
        joined = []
        for sink in sinks:
            table = _joined(
                [table for table in tables if table.sink == sink], getattr(self.dialect, sink).none
            )
            table.columns["line"] = numbers[table.at]
            joined.append(table)
            for at in table.at[-MOST_OF_A_BLOCK:].tolist():
                self.dialect.stamps.take(int(numbers[at]), lines[at])
        if joined and not self.dialect.take(joined):
            self._by_line(
                sorted({at for table in joined for at in table.at.tolist()}), lines, numbers
            )


def _matches(forms: list[_Form], lines: list[str]) -> list[tuple[str, ...]]:
    """Groups of all forms for each line, and what matches none, column by column."""
    pattern = "|".join([*(form.pattern for form in forms), "(.*)"])
    rows = re.compile(f"^(?:{pattern})$", re.MULTILINE | re.ASCII).findall("\n".join(lines))
    if forms:
        return list(zip(*rows, strict=True))
    return [tuple(rows)]


def _split(text: str, number: int) -> tuple[str, Column]:
    """The text with a line feed wherever a line, or a piece between carriage returns,
    ends; and the number of each.
    """
    text = text.replace("\r\n", "\n")
    if "\r" not in text:
        return text, number + np.arange(text.count("\n") + 1)
    characters = np.frombuffer(text.encode(), np.uint8)
    ends = characters[(characters == 10) | (characters == 13)]
    return text.replace("\r", "\n"), number + np.append(0, np.cumsum(ends == 10))


def _is_form(records: Sequence[Record]) -> bool:
    """Whether all lines like this one have these steps: one per sink."""
    rows = all(
        r.usual and r.needs in (None, *(value.column for value in r.values)) for r in records
    )
    return rows and 0 < len(records) == len({record.sink for record in records})


def _joined(tables: list[Table], none: Mapping[str, float]) -> Table:
    """The rows of several forms in the order of their lines. ``none``: column -> what
    stands for no value.
    """
    at = np.concatenate([table.at for table in tables])
    order = np.argsort(at)
    columns = {}
    for name in dict.fromkeys(name for table in tables for name in table.columns):
        each = []
        for table in tables:
            each.append(table.columns.get(name, np.full(len(table.at), none.get(name, NO_COUNT))))
        columns[name] = np.concatenate(each)[order]
    return Table(tables[0].sink, at[order], columns, tables[0].texts, len(tables) == 1)


def _literal(text: str) -> str:
    """A regex of this text with any other numbers, and any blanks if it has some."""
    return _TOKEN.sub(lambda match: _TOKENS[match.lastindex or 0] or re.escape(match[0]), text)
