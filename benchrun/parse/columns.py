"""A growable table of numbers in memory. None is stored as a value that no log prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_COUNT = -1
NO_VALUE = -inf
_NONE = {"d": NO_VALUE, "q": NO_COUNT, "i": NO_COUNT}
"""Type code -> what None is stored as; other types have no None, and store 0."""
ROWS_AT_ONCE = 1 << 16

Column = NDArray[Any]


class Columns:
    """A table: its rows are packed one after the other, and read as a numpy array with named fields."""

    def __init__(self, types: Mapping[str, str], table: Column | None = None) -> None:
        """``types``: name of each column, in order -> type code, as of ``struct``. ``table``: the first rows."""
        self.types = dict(types)
        self.none = {name: _NONE.get(code, 0) for name, code in self.types.items()}
        self._dtype = np.dtype(list(self.types.items()))
        self._row = Struct("=" + "".join(self.types.values()))
        self._rows = bytearray(b"" if table is None else table.tobytes())
        self._stored = tuple(self.none.values())
        self._absent = tuple(_NONE.get(code) for code in self.types.values())

    def __len__(self) -> int:
        return len(self._rows) // self._row.size

    def append(self, row: Iterable[Any]) -> None:
        """Add one row: a value per column."""
        self._rows += self._packed(row)

    def put(self, index: int, row: Iterable[Any]) -> None:
        """Overwrite one row."""
        self._rows[index * self._row.size : (index + 1) * self._row.size] = self._packed(row)

    def extend(self, values: Mapping[str, Any], rows: int) -> None:
        """Add ``rows`` rows from arrays, or from single values that all rows share; other columns stay empty."""
        every = {name: np.broadcast_to(values.get(name, none), rows) for name, none in self.none.items()}
        for first in range(0, rows, ROWS_AT_ONCE):
            table = np.empty(min(ROWS_AT_ONCE, rows - first), self._dtype)
            for name, column in every.items():
                table[name] = column[first : first + ROWS_AT_ONCE]
            self._rows += table.tobytes()

    def table(self) -> Column:
        """A copy of all rows, as an array with named fields."""
        return np.array(np.frombuffer(self._rows, self._dtype))

    def columns(self, *names: str) -> list[Column]:
        """Copies of several columns."""
        table = np.frombuffer(self._rows, self._dtype)
        return [table[name].copy() for name in names]

    def column(self, name: str) -> Column:
        """A copy of one column."""
        return self.columns(name)[0]

    def row(self, index: int) -> list[Any]:
        """The values of one row, None where it has none."""
        return self._plain(self._row.unpack_from(self._rows, index * self._row.size))

    def rows(self) -> Iterator[list[Any]]:
        """The values of each row."""
        return map(self._plain, self._row.iter_unpack(bytes(self._rows)))

    def _packed(self, row: Iterable[Any]) -> bytes:
        stored = [none if value is None else value for value, none in zip(row, self._stored, strict=True)]
        return self._row.pack(*stored)

    def _plain(self, stored: Iterable[Any]) -> list[Any]:
        return [None if value == none else value for value, none in zip(stored, self._absent, strict=True)]
