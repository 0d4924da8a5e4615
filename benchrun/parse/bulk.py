"""Blocks of step lines: those of a known layout are read at once, the others one by one, all in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import numpy as np

from benchrun.parse.columns import NONE
from benchrun.parse.dialect import Dialect
from benchrun.parse.digits import Ints, Lines
from benchrun.parse.layout import Layout
from benchrun.parse.records import Facts

OFTEN = 3
"""Lines of one skeleton in a block that make it worth learning."""
MOST_LAYOUTS = 512
MOST_ALONE = 0.1
"""Of the step lines of a block so many may be left to be read one by one; else all are."""
_OTHER, _ALONE = -1, -2
"""Kinds of line: no step, and one that has no layout. The others are numbers of layouts."""


class Bulk:
    """Reads blocks for one dialect, and learns the layouts of its lines."""

    def __init__(self, dialect: Dialect, by_line: Callable[[bytes, int], None]) -> None:
        """``by_line``: reads some whole lines one by one, of which the first has this number."""
        self._dialect, self._by_line = dialect, by_line
        self._facts: Facts | None = None
        self._layouts: list[Layout] = []
        self._kinds: dict[bytes, int] = {}

    def read(self, block: bytes, number: int) -> int:
        """Take all step lines of a block, whose first line has this number.

        How many there were; 0, and nothing is taken, where they must be read line by line.
        """
        facts = replace(self._dialect.facts, planned_steps=None)
        if facts != self._facts:  # what a line means may hang on them
            self._facts, self._layouts, self._kinds = facts, [], {}
        lines = Lines(block)
        kinds = self._kinds_of(lines)
        steps = np.flatnonzero(kinds != _OTHER)
        parts: dict[int, tuple[Ints, dict[str, Any]]] = {}
        for kind in np.unique(kinds[kinds >= 0]).tolist():
            chosen = np.flatnonzero(kinds == kind)
            found, usual = self._layouts[kind].read(lines, chosen)
            kinds[chosen[~usual]] = _ALONE
            parts[kind] = chosen[usual], _part(found, usual)
        alone = np.flatnonzero(kinds == _ALONE)
        if len(alone) > MOST_ALONE * len(steps):
            return 0
        edges = lines.edges
        for first, end in pairwise((-1, *alone.tolist(), len(kinds))):
            inside = steps[np.searchsorted(steps, first + 1) : np.searchsorted(steps, end)]
            if len(inside):
                # The last line is read as ever, and leaves the dialect as if all had been.
                last = int(inside[-1])
                if not self._take(lines, kinds, inside[:-1], parts, number):
                    last = int(inside[0])
                self._by_line(block[edges[last] : edges[end]], number + last)
            if end < len(kinds):
                self._by_line(block[edges[end] : edges[end + 1]], number + end)
        return len(steps)

    def _take(self, lines: Lines, kinds: Ints, inside: Ints, parts: dict[int, Any], number: int) -> bool:
        """Add the rows of these lines; False, and nothing is added, if they do not just go on."""
        if not len(inside):
            return True
        tables: dict[tuple[str, bool], list[tuple[Ints, dict[str, Any]]]] = {}
        for kind in np.unique(kinds[inside]).tolist():
            at, found = parts[kind]
            first, end = np.searchsorted(at, [inside[0], inside[-1] + 1]).tolist()
            layout, part = self._layouts[kind], _part(found, slice(first, end))
            tables.setdefault((layout.sink, layout.averages), []).append((at[first:end], part))
        if len({sink for sink, _ in tables}) < len(tables):
            return False
        taken = {key: self._dialect.numbered(key[0], _joined(table)) for key, table in tables.items()}
        if not all(getattr(self._dialect, sink).goes_on(found) for (sink, _), found in taken.items()):
            return False
        for (sink, averages), found in taken.items():
            found["line"] = found["line"] + number
            self._dialect.take(sink, found, averages=averages)
        # Of what lines say besides their steps, the last one of a kind holds.
        for line in sorted(int(at[-1]) for table in tables.values() for at, _ in table):
            self._dialect.follow(lines.text(line))
        return True

    def _kinds_of(self, lines: Lines) -> Ints:
        """The kind of each line."""
        skeletons = lines.skeletons
        kinds = np.fromiter(map(self._kinds.get, skeletons, repeat(_OTHER)), np.int64, len(skeletons))
        needles = self._dialect.step_needles
        unknown = [at for at in np.flatnonzero(kinds == _OTHER).tolist() if _any(needles, skeletons[at])]
        if unknown:
            often = Counter(skeletons[at] for at in unknown)
            for at in unknown:
                skeleton = skeletons[at]
                if skeleton not in self._kinds and often[skeleton] >= OFTEN:
                    self._learn(skeleton, lines.text(at))
                kinds[at] = self._kinds.get(skeleton, _ALONE)
        return kinds

    def _learn(self, skeleton: bytes, text: bytes) -> None:
        if len(self._kinds) == MOST_LAYOUTS:
            return
        layout = Layout.learn(self._dialect, text)
        self._kinds[skeleton] = _ALONE if layout is None else len(self._layouts)
        if layout is not None:
            self._layouts.append(layout)


def _part(found: dict[str, Any], chosen: Any) -> dict[str, Any]:
    """These rows of columns; what all rows have is no array."""
    return {name: values[chosen] if isinstance(values, np.ndarray) else values for name, values in found.items()}


def _any(needles: Sequence[bytes], skeleton: bytes) -> bool:
    return any(needle in skeleton for needle in needles)


def _joined(table: list[tuple[Ints, dict[str, Any]]]) -> dict[str, Any]:
    """The rows of several layouts in the order of their lines."""
    if len(table) == 1:
        return dict(table[0][1])
    order = np.argsort(np.concatenate([at for at, _ in table]), kind="stable")
    names = sorted({name for _, part in table for name in part})
    joined = {}
    for name in names:
        columns = [np.broadcast_to(part.get(name, NONE[name]), len(at)) for at, part in table]
        joined[name] = np.concatenate(columns)[order]
    return joined
