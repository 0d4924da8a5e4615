"""Rows sorted and merged by blocks: the last row of a step after restarts, and one row of several files' rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchrun.parse.columns import FIELDS, NONE, Column, Columns

Block = dict[str, Column]
BY_STEP, BY_SEGMENT = ("step",), ("segment", "step")


def by_step(columns: Columns) -> Columns:
    """One row a step number, the last one, in the order of the numbers."""
    # Equal sizes are merged first, as in merge sort; what only goes on is one run, whatever its size.
    runs: list[Columns] = [Columns()]
    for block in _blocks(columns):
        run = _sorted(block, BY_STEP)
        if len(runs[-1]) and run["step"][0] <= runs[-1].at("step", len(runs[-1]) - 1):
            runs.append(Columns())
        _append(runs[-1], run)
        while len(runs) > 2 and len(runs[-3]) <= 2 * len(runs[-2]):
            runs[-3:-1] = [_merged(runs[-3], runs[-2], BY_STEP)]
    return _all(runs, BY_STEP)


def by_segment(several: Sequence[Columns]) -> Columns:
    """The rows of several files. A step that several have is the later file's, filled up from the earlier ones'."""
    return _all(list(several), BY_SEGMENT)


def _all(runs: list[Columns], by: Sequence[str]) -> Columns:
    while len(runs) > 1:
        runs[-2:] = [_merged(runs[-2], runs[-1], by)]
    return runs[0]


def _merged(first: Columns, second: Columns, by: Sequence[str]) -> Columns:
    """Both, each in the order of ``by`` and without doubles; of a double the second's row counts."""
    both = Columns()
    left, right = _blocks(first), _blocks(second)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        end = min(_key(a, by, -1), _key(b, by, -1))
        (a_now, a), (b_now, b) = _upto(a, by, end), _upto(b, by, end)
        _append(both, _sorted({name: np.concatenate([a_now[name], b_now[name]]) for name in FIELDS}, by))
        a, b = a or next(left, None), b or next(right, None)
    for rest in (*filter(None, (a, b)), *left, *right):
        _append(both, rest)
    return both


def _blocks(columns: Columns) -> Iterator[Block]:
    return (dict(zip(FIELDS, block, strict=True)) for block in columns.blocks(*FIELDS))


def _append(columns: Columns, block: Block) -> None:
    columns.extend(block, len(block["step"]))


def _key(block: Block, by: Sequence[str], index: int) -> tuple[int, ...]:
    return tuple(int(block[name][index]) for name in by)


def _upto(block: Block, by: Sequence[str], end: tuple[int, ...]) -> tuple[Block, Block | None]:
    """The rows up to ``end``, and those after it."""
    first, last = 0, len(block["step"])
    while first < last:
        middle = (first + last) // 2
        first, last = (middle + 1, last) if _key(block, by, middle) <= end else (first, middle)
    rest = {name: column[first:] for name, column in block.items()} if first < len(block["step"]) else None
    return {name: column[:first] for name, column in block.items()}, rest


def _sorted(block: Block, by: Sequence[str]) -> Block:
    """In the order of ``by``, the last of equal ones; by segment, filled up from the one before it."""
    order = np.lexsort([block[name] for name in reversed(by)])
    same = np.ones(max(len(order) - 1, 0), bool)
    for name in by:
        same &= np.diff(block[name][order]) == 0
    last = np.flatnonzero(np.append(~same, True))
    chosen = {name: column[order[last]] for name, column in block.items()}
    if by is BY_SEGMENT and same.any():
        doubled = np.flatnonzero(same[last - 1] & (last > 0))
        for name, column in chosen.items():
            ours, theirs = column[doubled], block[name][order[last[doubled] - 1]]
            column[doubled] = np.where(ours == NONE[name], theirs, ours)
    return chosen
