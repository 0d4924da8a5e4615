"""A growable table of numbers in memory. None is stored as a value that no log prints."""

from array import array
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_COUNT = -1
NO_VALUE = -inf
_NONE = {"d": NO_VALUE, "q": NO_COUNT, "i": NO_COUNT}
"""Type code -> what None is stored as; other types have no None, and store 0."""

Column = NDArray[Any]


class Columns:
    """A table: one array for each column."""

    def __init__(self, types: Mapping[str, str]) -> None:
        """``types``: name of each column, in order -> type code, as of ``array``."""
        self.none = {name: _NONE.get(code, 0) for name, code in types.items()}
        self._arrays: dict[str, array[Any]] = {name: array(code) for name, code in types.items()}
        self._stores = list(zip(self._arrays.values(), self.none.values(), strict=True))

    def __len__(self) -> int:
        return len(self._stores[0][0])

    def append(self, row: Iterable[Any]) -> None:
        """Add one row: a value per column."""
        for (column, none), value in zip(self._stores, row, strict=True):
            column.append(none if value is None else value)

    def put(self, index: int, row: Iterable[Any]) -> None:
        """Overwrite one row."""
        for (column, none), value in zip(self._stores, row, strict=True):
            column[index] = none if value is None else value

    def append_columns(self, values: Mapping[str, Any], rows: int) -> None:
        """Add ``rows`` rows from arrays, or from single values that all rows share;
        other columns stay empty.
        """
        for name, column in self._arrays.items():
            added = np.broadcast_to(values.get(name, self.none[name]), rows)
            column.frombytes(added.astype(column.typecode).tobytes())

    def row(self, index: int) -> list[Any]:
        """The values of one row, None if it has none."""
        stored = ((column[index], none) for column, none in self._stores)
        return [None if none and value == none else value for value, none in stored]

    def column(self, name: str) -> Column:
        """A copy of one column."""
        return np.array(self._arrays[name])

    def columns(self, *names: str) -> list[Column]:
        """Copies of several columns."""
        return list(map(self.column, names))
