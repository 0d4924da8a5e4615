"""What the Trainer's dictionaries say, row by row; and the rows with times that come of it, when more is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchrun.parse.columns import NO_VALUE, Column, Columns
from benchrun.parse.records import LONGEST_INTERVAL, Rows, Step

MOST_STUCK = 0.1
"""Of the dictionaries this many may find a bar that was not drawn anew: such a row replaces the one before it."""


class Printed:
    """Dictionaries, as Steps whose fields mean something else where the Trainer has none of their kind.

    ``step_time_s`` is the clock since the start, ``tflops_per_gpu`` the step's own time where it was measured,
    ``tokens_per_s_per_gpu`` the epoch, ``interval`` the step of the bar that follows, 0 if none does. An epoch that
    falls begins another run, which is a segment.
    """

    def __init__(self) -> None:
        self.columns = Columns()
        self.measured = 0
        """Rows with a time of their own."""
        self.all_numbered = True
        """Every dictionary so far says which step it is of."""
        self._last_numbered = self._followed = False
        self._runs, self._epoch = 0, 0.0

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def clocked(self) -> bool:
        """Whether they have a clock, or times of their own."""
        return len(self) > 0 and (self.measured > 0 or self.columns.at("step_time_s", 0) != NO_VALUE)

    @property
    def epochs(self) -> float:
        """How many were made, of one run."""
        return 0.0 if self._runs else self._epoch

    @property
    def fine(self) -> bool:
        """Whether the clock has fractions of a second."""
        clocks = (clock[clock != NO_VALUE] for (clock,) in self.columns.blocks("step_time_s"))
        return any((clock % 1 != 0).any() for clock in clocks)

    def numbered(self, said: bool) -> None:
        """Whether the next row says its step."""
        self.all_numbered = self.all_numbered and said
        self._last_numbered = said

    def add(self, row: Step) -> None:
        """Take one dictionary."""
        epoch = row.tokens_per_s_per_gpu or 0.0
        self._runs += epoch < self._epoch
        self._epoch = epoch
        self.measured += row.tflops_per_gpu is not None
        self.columns.append(row, self._runs)
        self._followed = False

    def followed(self, step: int) -> None:
        """A bar at this step; the first one after a dictionary is redrawn below it."""
        if len(self) and not self._followed and step <= LONGEST_INTERVAL:
            self.columns.put("interval", len(self) - 1, step)
        self._followed = True

    def goes_on(self, found: Mapping[str, Any]) -> bool:
        """Whether these rows only go on after the last one: then each is a record of its own."""
        epochs = np.broadcast_to(found["tokens_per_s_per_gpu"], len(found["line"]))
        if not self._last_numbered or found["step"][0] <= self.columns.at("step", len(self) - 1):
            return False
        rising = (np.diff(found["step"]) > 0).all() and not (np.diff(epochs, prepend=self._epoch) < 0).any()
        return bool(rising)

    def extend(self, found: Mapping[str, Any], *, averages: bool) -> None:
        """Take many that go on."""
        rows = len(found["line"])
        times = np.broadcast_to(found.get("tflops_per_gpu", NO_VALUE), rows)
        self.measured += int((times != NO_VALUE).sum())
        self._last_numbered = True
        self._epoch = float(np.broadcast_to(found["tokens_per_s_per_gpu"], rows)[-1])
        self.columns.extend({**found, "segment": self._runs}, rows)


def timed(printed: Printed, steps: Sequence[int], clocks: Sequence[int], average: float | None, every: int) -> Rows:
    """Rows with times: their own, or from their own clock, or from the bars' clocks at ``steps``, or the average.

    Where nothing numbers the dictionaries, one comes after ``every`` steps.
    """
    rows = Rows()
    clock_of = _Clock(steps, clocks)
    if len(clock_of) or printed.columns.at("step_time_s", 0) != NO_VALUE:
        average = None
    differences = _Differences(rows, average)
    for block in _numbered(printed, every):
        bare = block["clock"] == NO_VALUE
        block["clock"][bare] = clock_of(block["step"][bare])
        differences.add(block)
    return rows


def _numbered(printed: Printed, every: int) -> Iterator[dict[str, Column]]:
    """The dictionaries by the step that they print; else by that of the bar before or after them; else counted.

    The bar before is mostly the dictionary's own, but a terminal overwrites it; the bar after is it drawn again. Bars
    on another stream may all come first, or last: then a dictionary comes after ``every`` steps. Counting without
    bars and epochs numbers the rows, and not the steps.
    """
    (before, before_stuck), (after, after_stuck) = (_usable(printed, name) for name in ("step", "interval"))
    by_bar_after = not printed.all_numbered and after and (not before or after_stuck < before_stuck)
    counted = not (printed.all_numbered or before or after)
    first = 1
    names = {"step": "step", "clock": "step_time_s", "line": "line", "loss": "loss", "grad_norm": "grad_norm"}
    names |= {"time": "tflops_per_gpu", "run": "segment", "after": "interval"}
    for block in printed.columns.blocks(*names.values()):
        found = {name: np.array(column) for name, column in zip(names, block, strict=True)}
        if by_bar_after:
            found["step"] = _by_bar_after(found["step"], found["after"])
        elif counted:
            found["step"] = every * np.arange(first, first + len(found["step"]))
            first += len(found["step"])
        yield found


def _by_bar_after(before: Column, after: Column) -> Column:
    """The bars' steps; a dictionary that ends the log has none, and is as far from the one before it as usual."""
    steps = np.where(after > 0, after, before)
    if len(steps) > 1 and after[-1] == 0:
        steps[-1] = max(steps[-1], steps[-2] + usual_distance(steps[:-1]))
    return steps


def _usable(printed: Printed, column: str) -> tuple[bool, int]:
    """Whether the dictionaries can be numbered by this column, in which few repeat the one before; and how many do."""
    stuck, unknown, last = 0, 0, -1
    for (step,) in printed.columns.blocks(column):
        stuck += int((np.diff(step, prepend=last) == 0).sum())
        unknown += int((step <= 0).sum())
        last = int(step[-1])
    cut = column == "interval" and last == 0  # a log may end with a dictionary
    return unknown == cut and stuck <= MOST_STUCK * len(printed), stuck


class _Clock:
    """Step -> the clock of its last bar."""

    def __init__(self, steps: Sequence[int], clocks: Sequence[int]) -> None:
        numbers = np.asarray(steps, np.int64)
        order = np.argsort(numbers, kind="stable")
        self._steps, self._clocks = numbers[order], np.asarray(clocks, np.float64)[order]

    def __len__(self) -> int:
        return len(self._steps)

    def __call__(self, steps: Column) -> Column:
        """NO_VALUE for a step without a bar."""
        if not len(self):
            return np.full(len(steps), NO_VALUE)
        at = np.maximum(np.searchsorted(self._steps, steps, side="right") - 1, 0)
        return np.where(self._steps[at] == steps, self._clocks[at], NO_VALUE)


class _Differences:
    """Clocks -> the times between them."""

    def __init__(self, rows: Rows, average: float | None) -> None:
        self._rows, self._average = rows, average
        self._step, self._clock, self._run = 0, 0.0, 0
        """Of the last row whose clock differed from the one before it."""
        self._first: int | None = None

    def add(self, block: Mapping[str, Column]) -> None:
        """Two rows, after which there is a row before each, and the others at once if they are all of one kind."""
        if self._first is None:
            self._begin(block["step"], block["clock"])
        self._one_by_one({name: column[:2] for name, column in block.items()})
        block = {name: column[2:] for name, column in block.items()}
        if not len(block["step"]):
            return
        found = {name: block[name] for name in ("step", "line", "loss", "grad_norm")}
        one_run = (block["run"] == self._run).all()
        times = self._at_once(block) if one_run and self._rows.goes_on(found) else None
        if times is not None:
            self._rows.extend({**found, **times})
        else:
            self._one_by_one(block)

    def _begin(self, steps: Column, clocks: Column) -> None:
        """A resumed run's clock does not cover the steps that were made before: its first row has no time."""
        self._first = int(steps[0])
        known = np.flatnonzero(clocks != NO_VALUE)
        if len(known) and self._first > usual_distance(steps):
            self._step, self._clock = int(steps[known[0]]), float(clocks[known[0]])

    def _one_by_one(self, block: Mapping[str, Column]) -> None:
        names = ("step", "clock", "line", "loss", "grad_norm", "time", "run")
        for row in zip(*(block[name].tolist() for name in names), strict=True):
            self._add_row(*row)

    def _at_once(self, block: Mapping[str, Column]) -> dict[str, Any] | None:
        clock, step = block["clock"], block["step"]
        measured, bare = block["time"] != NO_VALUE, clock == NO_VALUE
        if measured.all():
            return {"step_time_s": block["time"]}
        if measured.any() or (bare.any() and not bare.all()):
            return None
        if bare.all():
            return {"step_time_s": NO_VALUE if self._average is None else self._average}
        before = np.append(self._clock, clock[:-1])
        if (clock < before).any():
            return None
        changed = np.append(-1, np.where(clock > before, np.arange(len(clock)), -1))
        last = np.maximum.accumulate(changed)
        since = np.where(last >= 0, step[last], self._step)
        interval = np.maximum(step - since[:-1], 1)
        with np.errstate(invalid="ignore"):
            time_s = np.where(clock > before, (clock - before) / interval, NO_VALUE)
        self._step, self._clock = int(since[-1]), float(clock[-1])
        return {"step_time_s": time_s, "interval": np.minimum(interval, LONGEST_INTERVAL)}

    def _add_row(
        self, step: int, clock: float, line: int, loss: float, grad_norm: float, measured: float, run: int
    ) -> None:
        rows = self._rows
        if run != self._run:
            rows.new_segment()
            self._run = run
        row = Step(step, None, line, loss=_given(loss), grad_norm=_given(grad_norm))
        if measured != NO_VALUE:
            rows.add(row._replace(step_time_s=measured))
            return
        time_s, interval = self._average, 1
        if clock != NO_VALUE:
            if clock < self._clock and self._first is not None and step <= self._first:
                self._step, self._clock = 0, 0.0  # from the start again
            interval = max(step - self._step, 1)
            # Within one second of the clock nothing is known: the next row with a time covers this one too.
            time_s = (clock - self._clock) / interval if clock > self._clock else None
            if clock != self._clock:
                self._step, self._clock = step, clock
        rows.add(row._replace(step_time_s=time_s, interval=interval))


def usual_distance(steps: Column) -> float:
    """How many steps a row mostly comes after the one before it; the first row's own number where it is alone."""
    gaps = np.diff(steps)
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else float(steps[0])


def _given(value: float) -> float | None:
    return None if value == NO_VALUE else value
