"""Numbers in columns: what a million step rows can afford. None is stored as a value that no log prints."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

NO_COUNT = -1
NO_VALUE = -inf
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
}
"""The fields of a Step, in its order, and how each is stored."""


class Columns:
    """One array a field; None in a count is NO_COUNT, in a float NO_VALUE."""

    step: array[int]
    step_time_s: array[float]
    line: array[int]
    segment: array[int]
    interval: array[int]
    loss: array[float]
    grad_norm: array[float]
    global_batch_size: array[int]
    tflops_per_gpu: array[float]
    tokens_per_s_per_gpu: array[float]
    skipped: array[int]
    nan: array[int]

    def __init__(self) -> None:
        self._all: list[array[Any]] = []
        for name, code in _TYPES.items():
            column: array[Any] = array(code)
            setattr(self, name, column)
            self._all.append(column)
        self._push = [(column.append, NO_VALUE if column.typecode == "d" else NO_COUNT) for column in self._all]

    def append(self, row: Iterable[Any], segment: int) -> None:
        """Add the fields of a Step; ``segment`` overrides its own."""
        for (push, none), value in zip(self._push, row, strict=True):
            push(none if value is None else value)
        self.segment[-1] = segment

    def extend(self, found: Mapping[str, Sequence[Any]], rows: int) -> None:
        """Add ``rows`` rows by columns; a column that is not given has no value in them."""
        for (name, code), column in zip(_TYPES.items(), self._all, strict=True):
            none = 0 if name in ("skipped", "nan") else NO_VALUE if code == "d" else NO_COUNT
            column.extend(found.get(name) or [none] * rows)

    def replace(self, index: int, row: Iterable[Any]) -> None:
        """Overwrite one row."""
        for column, value in zip(self._all, row, strict=True):
            column[index] = (NO_VALUE if column.typecode == "d" else NO_COUNT) if value is None else value

    def values(self, index: int) -> list[Any]:
        """The fields of one row, None where it has none."""
        values = [column[index] for column in self._all]
        return [None if value in (NO_VALUE, NO_COUNT) else value for value in values]
