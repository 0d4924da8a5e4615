"""A step line's layout, learned from one line, reads a whole block of such lines at the speed of one regex.

A long log repeats the same fields in the same order. Where every step line of a block does, nothing else needs to be
looked at; where one does not, the block is read line by line, and the layout is learned anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchrun.parse.dialect import FEW, LARGEST, LARGEST_BATCH
from benchrun.parse.lines import find_all

Column = Sequence[bytes]
Convert = Callable[[Column], list[Any]]


def floats(column: Column) -> list[float]:
    """ValueError for what is no number."""
    return list(map(float, column))


def rates(column: Column) -> list[float]:
    """ValueError for what is not above 0, or beyond all bounds."""
    return _credible(list(map(float, column)))


def milliseconds(column: Column) -> list[float]:
    """As seconds."""
    return _credible([value / 1000 for value in map(float, column)])


def _credible(values: list[float]) -> list[float]:
    if not all(1 / LARGEST < value < LARGEST for value in values):
        raise ValueError
    return values


def counts(column: Column) -> list[int]:
    """ValueError for what is no whole number of credible size."""
    values = list(map(int, column))
    if not 0 <= min(values) <= max(values) <= LARGEST:
        raise ValueError
    return values


def batches(column: Column) -> list[int]:
    """Samples a step."""
    values = counts(column)
    if not 0 < min(values) <= max(values) <= LARGEST_BATCH:
        raise ValueError
    return values


def few(column: Column) -> list[int]:
    """Counts of iterations."""
    values = counts(column)
    if max(values) > FEW:
        raise ValueError
    return values


class Layout:
    """The order of the fields between an iteration's number and the end of its line."""

    def __init__(self, pattern: bytes, columns: dict[str, Convert]) -> None:
        """Use ``learn``."""
        self._pattern = re.compile(pattern)
        self._columns = columns

    @classmethod
    def learn(cls, body: str, wanted: Mapping[str, tuple[str, Convert]]) -> Layout | None:
        """From what follows ``iteration 5/ 10 |``; ``wanted``: field -> (column, conversion).

        None where two fields have a claim to one column: then a choice must be made line by line.
        """
        columns: dict[str, Convert] = {"step": counts, "planned": counts}
        pattern = rb"\biteration +(\d{1,15})/ *(\d{1,15}) \|"
        for part in body.split("|")[:-1]:
            name = part.partition(":")[0]
            column, convert = wanted.get(name.strip(), ("", floats))
            value = rb"[^|\r\n]*"
            if column in columns:
                return None
            if column:
                columns[column] = convert
                value = rb"([^|_\r\n]*)"
            pattern += re.escape(name.encode()) + b":" + value + rb"\|"
        return cls(pattern + rb" *\r?\n", columns)

    def read(self, block: bytes, needle: bytes) -> dict[str, list[Any]] | None:
        """Column -> values of every step line in ``block``; and ``line``, counted from 0.

        None if one of those with ``needle`` has another layout, or a value that is no number.
        """
        groups = self._pattern.findall(block)
        if not groups or len(groups) != block.count(needle):
            return None
        columns = zip(self._columns.items(), zip(*groups, strict=True), strict=True)
        try:
            return {
                "line": _lines(block, needle, len(groups)),
                **{name: convert(values) for (name, convert), values in columns},
            }
        except ValueError:
            return None


def _lines(block: bytes, needle: bytes, count: int) -> list[int]:
    """The line of each ``needle``, from 0."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
    if len(ends) == count:
        return list(range(count))
    places = [hit.at for hit in find_all(block, needle, 0)]
    lines: list[int] = np.searchsorted(ends, places).tolist()
    return lines
