"""Numbers in columns: memory stays flat however many rows a log has. None is stored as a value that no log prints.

The last rows are in memory, the others in blocks in a temporary file without a name, each column of a block in one
piece: a statistic reads only the columns that it needs, one block at a time.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.errors import UserError

NO_COUNT = -1
NO_VALUE = -inf
ROWS = 1 << 15
"""Rows of a block. Fewer than twice as many never touch a disk."""
_TYPES = {
    "step": "q",
    "step_time_s": "d",
    "line": "I",
    "segment": "i",
    "interval": "i",
    "loss": "d",
    "grad_norm": "d",
    "global_batch_size": "i",
    "tflops_per_gpu": "d",
    "tokens_per_s_per_gpu": "d",
    "skipped": "H",
    "nan": "H",
    "mfu": "d",
}
"""The fields of a Step, in its order, and how each is stored."""
FIELDS = tuple(_TYPES)
NONE = {name: 0 if code == "H" else NO_VALUE if code == "d" else NO_COUNT for name, code in _TYPES.items()}
_SIZES = {name: np.dtype(code).itemsize for name, code in _TYPES.items()}
_OFFSETS = {name: sum(list(_SIZES.values())[:number]) for number, name in enumerate(_TYPES)}
"""Where a column begins in a block of one row."""
_ROW = sum(_SIZES.values())

Column = NDArray[Any]


class Columns:
    """One column a field; None in a count is NO_COUNT, in a float NO_VALUE."""

    def __init__(self) -> None:
        self._last: dict[str, array[Any]] = {name: array(code) for name, code in _TYPES.items()}
        """The rows that are not in the file."""
        self._push = [(column.append, NONE[name]) for name, column in self._last.items()]
        self._file: Any = None
        self._written = 0
        """Rows in the file: whole blocks."""
        self._open: dict[str, Column] = {}
        """The block of the file that was last written to, and where it begins."""
        self._opened, self._changed = -1, False

    def __len__(self) -> int:
        return self._written + len(self._last["step"])

    def append(self, row: Iterable[Any], segment: int) -> None:
        """Add the fields of a Step; ``segment`` overrides its own."""
        for (push, none), value in zip(self._push, row, strict=True):
            push(none if value is None else value)
        self._last["segment"][-1] = segment
        self._spill()

    def extend(self, found: Mapping[str, Column | int], rows: int) -> None:
        """Add ``rows`` rows by columns, or values that all have; a column that is not given has no value in them."""
        for name, column in self._last.items():
            values = np.broadcast_to(found.get(name, NONE[name]), rows).astype(column.typecode)
            column.frombytes(values.tobytes())
        self._spill()

    def at(self, name: str, index: int) -> Any:
        """One value as it is stored."""
        if index >= self._written:
            return self._last[name][index - self._written]
        if index // ROWS == self._opened:
            return self._open[name][index % ROWS].item()
        return np.frombuffer(os.pread(self._file.fileno(), _SIZES[name], _place(name, index)), _TYPES[name])[0].item()

    def put(self, name: str, index: int, value: Any) -> None:
        """Overwrite one value; None is no value."""
        value = NONE[name] if value is None else value
        if index >= self._written:
            self._last[name][index - self._written] = value
        else:
            if index // ROWS != self._opened:
                self._close()
                self._opened = index // ROWS
                self._open = {each: self._read(each, index // ROWS * ROWS).copy() for each in FIELDS}
            self._open[name][index % ROWS], self._changed = value, True

    def values(self, index: int) -> list[Any]:
        """The fields of one row, None where it has none."""
        return [_value(self.at(name, index)) for name in FIELDS]

    def rows(self) -> Iterator[list[Any]]:
        """The fields of each row."""
        for block in self.blocks(*FIELDS):
            yield from ([_value(value) for value in row] for row in zip(*(c.tolist() for c in block), strict=True))

    def blocks(self, *names: str) -> Iterator[list[Column]]:
        """These columns of all rows, a block at a time; nothing without a row."""
        self._close()
        for first in range(0, self._written, ROWS):
            yield [self._read(name, first) for name in names]
        if self._last["step"]:
            yield [np.array(self._last[name]) for name in names]

    def whole(self, name: str) -> Column:
        """All of one column: only for few rows."""
        return np.concatenate([np.empty(0, _TYPES[name]), *(block for (block,) in self.blocks(name))])

    def _close(self) -> None:
        """Write what was changed."""
        if self._changed:
            for name, column in self._open.items():
                self._write(column.tobytes(), _place(name, self._opened * ROWS))
        self._changed = False

    def _spill(self) -> None:
        while len(self._last["step"]) >= 2 * ROWS:
            for name, column in self._last.items():
                self._write(column[:ROWS].tobytes(), _place(name, self._written))
                del column[:ROWS]
            self._written += ROWS

    def _write(self, data: bytes, at: int) -> None:
        try:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the rows
            while data:
                done = os.pwrite(self._file.fileno(), data, at)
                data, at = data[done:], at + done
        except OSError as error:
            hint = "TMPDIR names a directory with room: about 70 bytes a step"
            raise UserError(f"no room for the steps of a long log: {error.strerror}", hint=hint) from error

    def _read(self, name: str, first: int) -> Column:
        data = os.pread(self._file.fileno(), ROWS * _SIZES[name], _place(name, first))
        return np.frombuffer(data, _TYPES[name])


def _place(name: str, index: int) -> int:
    block, row = divmod(index, ROWS)
    return ROWS * (block * _ROW + _OFFSETS[name]) + row * _SIZES[name]


def _value(stored: Any) -> Any:
    return None if stored in (NO_VALUE, NO_COUNT) else stored
