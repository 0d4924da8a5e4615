"""Progress bars in a log, and the time between them: ``  6%|6         | 1/16 [00:58<14:41, 58.76s/it]``.

Bars of other work (loading, tokenizing, evaluation) look alike; they have another total. Source: tqdm's default format.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import numpy as np

from benchrun.frameworks.dialects.printed import usual_distance
from benchrun.parse.columns import Column
from benchrun.parse.dialect import LARGEST, seconds
from benchrun.parse.rows import Rows, Step

_BAR = re.compile(r"(?<!\d)\d{1,3}%\|[^|]*\|\s*(\d{1,12})/(\d{1,12}) \[(\d[\d:]*)<")
# Nothing but what a launcher writes stands before a training bar: a rank, a host, a time, the stream. "Loading
# checkpoint shards:" is other work.
_BEFORE_BAR = re.compile(
    r"(?:[\]>]:?|\d:|[)|}]|:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s|\bstd(?:out|err)(?::| [FP])|\bTrain:)\s*$"
)
BAR_COLUMNS = "bar_step", "bar_total", "bar_clock_s"
LONGEST_LABEL = 80
MOST = 1 << 20

Drawn = tuple["array[int]", "array[int]", "array[int]"]
"""Step, clock in whole seconds, and line of each bar, as they were drawn."""


def bars_on(text: str) -> Iterator[re.Match[str]]:
    """The bars of a line that may be the training's: step, total and clock."""
    for bar in _BAR.finditer(text) if "%|" in text else ():
        before = text[max(bar.start() - LONGEST_LABEL, 0) : bar.start()]
        if not before.strip() or _BEFORE_BAR.search(before):
            yield bar


class Bars:
    """The bars of a log, by their total."""

    def __init__(self) -> None:
        self._drawn: dict[int, Drawn] = {}

    def __bool__(self) -> bool:
        return bool(self._drawn)

    def read(self, text: str, line: int) -> Iterator[tuple[int, int]]:
        """Keep the bars of a line; step and total of each."""
        for bar in bars_on(text):
            step, total = int(bar[1]), int(bar[2])
            steps, clocks, lines = self._drawn.setdefault(total, _none())
            if 0 < step <= total and len(steps) < MOST and (not steps or steps[-1] != step):
                steps.append(step)
                clocks.append(seconds(bar[3]))
                lines.append(line)
            yield step, total

    def extend(self, step: Column, total: Column, clock: Column, line: Column) -> None:
        """Keep many bars."""
        for each in dict.fromkeys(total.tolist()):
            drawn = self._drawn.setdefault(each, _none())
            chosen = np.flatnonzero((total == each) & (step > 0) & (step <= each))
            anew = np.diff(step[chosen], prepend=drawn[0][-1] if drawn[0] else 0) != 0
            chosen = chosen[anew][: MOST - len(drawn[0])]
            for column, values in zip(drawn, (step, clock, line), strict=True):
                column.frombytes(values[chosen].astype(np.int64).tobytes())

    def of(self, total: int) -> Drawn:
        """Those with this total."""
        return self._drawn.get(total, _none())

    def longest(self, at_least: int) -> int:
        """The total, of those that large, whose bars ran longest: the training's, in whose time evaluation lies too."""
        clocks = {total: (max(drawn[1], default=-1), len(drawn[1])) for total, drawn in self._drawn.items()}
        return max((total for total in clocks if total >= at_least), key=clocks.__getitem__, default=0)


def differences(drawn: Drawn) -> Rows:
    """Bars -> rows: the time between a bar and the one before it, over the steps between them."""
    rows = Rows()
    usual = usual_distance(np.asarray(drawn[0]))
    before_step, before_clock = LARGEST, 0
    for step, clock, line in zip(*drawn, strict=True):
        if step <= before_step or clock < before_clock:  # the first one, another launcher's bar, or a restart
            before_step, before_clock = (step, clock) if step > usual else (0, 0)
        if clock > before_clock:
            interval = step - before_step
            rows.add(Step(step, (clock - before_clock) / interval, line, interval=interval))
            before_step, before_clock = step, clock
    return rows


def _none() -> Drawn:
    return array("q"), array("q"), array("q")
