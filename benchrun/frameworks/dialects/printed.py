"""The Trainer's dictionaries as they are printed, and the rows with times that follow when all are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchrun.parse.columns import NO_VALUE, Column, Columns
from benchrun.parse.rows import LONGEST_INTERVAL, Rows, Step

MOST_STUCK = 0.1
"""Of the dictionaries this many may find a bar that was not drawn anew: such a row replaces the one before it."""
TYPES = {
    "step": "q",
    "bar_after": "q",
    "clock_s": "d",
    "step_time_s": "d",
    "epoch": "d",
    "run": "i",
    "line": "I",
    "loss": "d",
    "grad_norm": "d",
}


class Printed:
    """One row for each dictionary.

    ``step`` is the printed one, else that of the bar before; ``bar_after`` that of the bar which follows, 0 if none
    does; ``clock_s`` counts from the start of the run; ``step_time_s`` is the step's own, where it was measured. An
    epoch that falls begins another run.
    """

    def __init__(self) -> None:
        self.columns = Columns(TYPES)
        self.all_numbered = True
        """Every dictionary so far prints its step."""
        self._followed = False
        self._runs, self._epoch = 0, 0.0

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def measured(self) -> int:
        """Rows with a time of their own."""
        return int((self.columns.column("step_time_s") != NO_VALUE).sum())

    @property
    def clocked(self) -> bool:
        """Whether they have a clock, or times of their own."""
        return len(self) > 0 and (self.measured > 0 or self.columns.at("clock_s", 0) != NO_VALUE)

    @property
    def epochs(self) -> float:
        """How many were made, of one run."""
        return 0.0 if self._runs else self._epoch

    @property
    def fine(self) -> bool:
        """Whether the clock has fractions of a second."""
        clock = self.columns.column("clock_s")
        return bool((clock[clock != NO_VALUE] % 1 != 0).any())

    def add(self, values: dict[str, Any], *, numbered: bool) -> None:
        """Take one dictionary."""
        epoch = values.get("epoch") or 0.0
        self._runs += epoch < self._epoch
        self._epoch = epoch
        self.all_numbered = self.all_numbered and numbered
        given = values.get
        self.columns.append(
            (
                *(given("step"), 0, given("clock_s"), given("step_time_s"), epoch, self._runs, given("line")),
                *(given("loss"), given("grad_norm")),
            )
        )
        self._followed = False

    def extend(self, columns: dict[str, Any], after: Column, *, numbered: bool, followed: bool) -> None:
        """Take many; ``after``: the step of the bar that follows each, or 0. ``followed``: one follows the last."""
        rows = len(columns["line"])
        epochs = np.broadcast_to(columns.get("epoch", 0.0), rows)
        runs = self._runs + np.cumsum(np.diff(epochs, prepend=self._epoch) < 0)
        self._runs, self._epoch = int(runs[-1]), float(epochs[-1])
        self.all_numbered = self.all_numbered and numbered
        after = np.where(after <= LONGEST_INTERVAL, after, 0)
        self.columns.extend({**columns, "bar_after": after, "epoch": epochs, "run": runs}, rows)
        self._followed = followed

    def followed(self, step: int) -> None:
        """A bar at this step; the first one after a dictionary is redrawn below it."""
        if len(self) and not self._followed and step <= LONGEST_INTERVAL:
            self.columns.put("bar_after", len(self) - 1, step)
        self._followed = True


def timed(printed: Printed, steps: Sequence[int], clocks: Sequence[int], average: float | None, every: int) -> Rows:
    """Rows with times: their own, or from their own clock, or from the bars' clocks at ``steps``, or the average.

    Where nothing numbers the dictionaries, one comes after ``every`` steps.
    """
    step, clock = _numbers(printed, every), printed.columns.column("clock_s")
    if len(steps) or clock[0] != NO_VALUE:
        average = None
    clock = np.where(clock == NO_VALUE, _clocks(step, steps, clocks), clock)
    time, run, line, loss, norm = printed.columns.columns("step_time_s", "run", "line", "loss", "grad_norm")
    rows, first = Rows(), int(step[0])
    # A resumed run's clock does not cover the steps that were made before: its first row has no time.
    start = 0, 0.0
    known = np.flatnonzero(clock != NO_VALUE)
    if len(known) and first > usual_distance(step):
        start = int(step[known[0]]), float(clock[known[0]])
    columns = _differences(step, clock, time, start, average) if not run.any() else None
    if columns is not None:
        rows.extend({"step": step, "line": line, "loss": loss, "grad_norm": norm, **columns})
        return rows
    before, current = start, 0
    for at in range(len(step)):
        if run[at] != current:
            rows.new_segment()
            current = run[at]
        number, now, time_s, interval = int(step[at]), float(clock[at]), average, 1
        if time[at] != NO_VALUE:
            time_s = float(time[at])
        elif now != NO_VALUE:
            if now < before[1] and number <= first:
                before = 0, 0.0  # from the start again
            interval = max(number - before[0], 1)
            # Within one second of the clock nothing is known: the next row with a time covers this one too.
            time_s = (now - before[1]) / interval if now > before[1] else None
            before = (number, now) if now != before[1] else before
        given = {"loss": float(loss[at]), "grad_norm": float(norm[at])}
        given = {name: value for name, value in given.items() if value != NO_VALUE}
        rows.add(Step(number, time_s, int(line[at]), interval=interval, **given))  # type: ignore[arg-type]
    return rows


def _differences(
    step: Column, clock: Column, time: Column, start: tuple[int, float], average: float | None
) -> dict[str, Any] | None:
    """Times, and the steps that each stands for, of rows whose times are all of one kind; None of others."""
    measured, bare = time != NO_VALUE, clock == NO_VALUE
    if measured.all():
        return {"step_time_s": time}
    if measured.any() or (bare.any() and not bare.all()):
        return None
    if bare.all():
        return {"step_time_s": NO_VALUE if average is None else average}
    before = np.append(start[1], clock[:-1])
    if (clock < before).any():
        return None
    last = np.maximum.accumulate(np.where(clock > before, np.arange(len(clock)), -1))
    since = np.append(start[0], np.where(last >= 0, step[last], start[0])[:-1])
    interval = np.maximum(step - since, 1)
    times = np.where(clock > before, (clock - before) / interval, NO_VALUE)
    return {"step_time_s": times, "interval": np.minimum(interval, LONGEST_INTERVAL)}


def _numbers(printed: Printed, every: int) -> Column:
    """The step of each dictionary: its own; else that of the bar before or after it; else counted.

    The bar before is mostly the dictionary's own, but a terminal overwrites it; the bar after is it drawn again. Bars
    on another stream may all come first, or last: then a dictionary comes after ``every`` steps. Counting without
    bars and epochs numbers the rows, and not the steps.
    """
    before, after = printed.columns.columns("step", "bar_after")
    cut = after[-1] == 0  # a log may end with a dictionary
    stuck_before, stuck_after = (int((np.diff(steps, prepend=-1) == 0).sum()) for steps in (before, after))
    most = MOST_STUCK * len(printed)
    by_before = not (before <= 0).any() and stuck_before <= most
    by_after = int((after <= 0).sum()) == cut and stuck_after <= most
    if not printed.all_numbered and by_after and (not by_before or stuck_after < stuck_before):
        steps = np.where(after > 0, after, before)
        if cut and len(steps) > 1:
            steps[-1] = max(steps[-1], steps[-2] + usual_distance(steps[:-1]))
        return steps
    if printed.all_numbered or by_before:
        return before
    return every * np.arange(1, len(before) + 1)


def _clocks(step: Column, steps: Sequence[int], clocks: Sequence[int]) -> Column:
    """The clock of each step's last bar; NO_VALUE for a step without one."""
    if not len(steps):
        return np.full(len(step), NO_VALUE)
    drawn = np.asarray(steps, np.int64)
    order = np.argsort(drawn, kind="stable")
    drawn, shown = drawn[order], np.asarray(clocks, np.float64)[order]
    at = np.maximum(np.searchsorted(drawn, step, side="right") - 1, 0)
    return np.where(drawn[at] == step, shown[at], NO_VALUE)


def usual_distance(steps: Column) -> float:
    """How many steps a row mostly comes after the one before it; the first row's own number where it is alone."""
    gaps = np.diff(steps)
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else float(steps[0])
