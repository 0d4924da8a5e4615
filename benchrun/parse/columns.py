"""Growable tables of numbers in memory, one array per column. None is stored as a value that no log prints."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_COUNT = -1
NO_VALUE = -inf
_ROWS_AT_ONCE = 1 << 12

Column = NDArray[Any]


class Columns:
    """A table. None is stored as NO_COUNT in a signed integer column, as NO_VALUE in a float one, else as 0."""

    def __init__(self, types: Mapping[str, str]) -> None:
        """``types``: name of each column, in order -> its type code of the ``array`` module."""
        self.types = dict(types)
        self.none = {name: _NONE.get(code, 0) for name, code in self.types.items()}
        self._arrays: dict[str, array[Any]] = {name: array(code) for name, code in self.types.items()}
        self._first = next(iter(self._arrays.values()))
        self._absent = [_NONE.get(code) for code in self.types.values()]
        self._push = [(column.append, self.none[name]) for name, column in self._arrays.items()]

    def __len__(self) -> int:
        return len(self._first)

    def append(self, row: Iterable[Any]) -> None:
        """Add one row: a value for each column."""
        for (push, none), value in zip(self._push, row, strict=True):
            push(none if value is None else value)

    def extend(self, values: Mapping[str, Any], rows: int) -> None:
        """Add ``rows`` rows from arrays, or from single values that all rows share; other columns stay empty."""
        for name, column in self._arrays.items():
            added = np.broadcast_to(values.get(name, self.none[name]), rows).astype(column.typecode)
            column.frombytes(added.tobytes())

    def at(self, name: str, index: int) -> Any:
        """One value as it is stored."""
        return self._arrays[name][index]

    def put(self, name: str, index: int, value: Any) -> None:
        """Overwrite one value."""
        self._arrays[name][index] = self.none[name] if value is None else value

    def column(self, name: str) -> Column:
        """A copy of one column."""
        return np.array(self._arrays[name])

    def columns(self, *names: str) -> list[Column]:
        """Copies of several columns."""
        return [self.column(name) for name in names]

    def row(self, index: int) -> list[Any]:
        """The values of one row, None where it has none."""
        return self._plain(column[index] for column in self._arrays.values())

    def rows(self) -> Iterator[list[Any]]:
        """The values of each row."""
        for first in range(0, len(self), _ROWS_AT_ONCE):
            part = [column[first : first + _ROWS_AT_ONCE] for column in self._arrays.values()]
            yield from map(self._plain, zip(*part, strict=True))

    def _plain(self, stored: Iterable[Any]) -> list[Any]:
        return [None if value == none else value for value, none in zip(stored, self._absent, strict=True)]

    def chosen(self, indices: Column) -> Columns:
        """A table of these rows, in this order."""
        table = Columns(self.types)
        table.extend({name: self.column(name)[indices] for name in self.types}, len(indices))
        return table


_NONE = {"d": NO_VALUE, "q": NO_COUNT, "i": NO_COUNT}
