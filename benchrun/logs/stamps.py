"""The program's own clock: a time that it prints with a step, or the date before it.

Dates that a container engine or a log collector adds (ISO 8601 with a ``T``) say when a
line arrived, which may be long after it was printed, and many lines at once. They are
left alone.
"""

import datetime
import re
from collections.abc import Iterator, Mapping

import numpy as np

from .columns import Column
from .records import Pause
from .rows import Rows

PAUSES = (
    b"alidation loss",
    b"alidate step",
    b"alidation: iteration",
    b"alidation DataLoader",
    b"unning Evaluation",
    b"unning evaluation",
    b"eval metrics",
    b"'eval_loss'",
    b'"eval_loss"',
    b"aving checkpoint",
    b"aving the checkpoint",
    b"aving model checkpoint",
    b"evaluate ......",
    b"aved checkpoint",
    b"aved a checkpoint",
    b"[Torch] Saving",
    b"sync checkpoint save",
)
"""Words of a line that tells of an evaluation or a checkpoint: time between two steps."""
CHECKPOINT, SAVED, EVALUATION, RESTART = "checkpoint", "saved checkpoint", "evaluation", "restart"
_WRITTEN = re.compile(r"aved (a )?checkpoint|inished saving|finalized successfully")
MOST_OF_A_BLOCK = 256
"""Dates that are read of a block of many alike lines."""
_DATE = re.compile(
    r"(?:\b(20\d\d)[-/](\d\d)[-/](\d\d)|\b[IWE](\d\d)(\d\d)) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
)
LEAP_YEAR = 2024
"""Year of a date without one: it has every day."""
_EVALUATED = re.compile(r"\bevaluate \.{6,60}: \((\d+\.\d+), ")
"""Megatron's timer: the ms of the fastest rank."""
_PREFIX = 200
"""Characters of a line in which its own date stands."""


def work_of(text: str) -> str:
    """What a line with one of PAUSES tells of."""
    if _WRITTEN.search(text):
        return SAVED
    if "aving" in text or "checkpoint save" in text:
        return CHECKPOINT
    return EVALUATION


class Stamps:
    """The dates of one program's step lines."""

    def __init__(self) -> None:
        self._dates: dict[int, float] = {}
        """Number of the line -> date, in s."""
        self._evaluated: dict[int, float] = {}
        """Number of the line -> seconds of an evaluation."""

    def take(self, number: int, text: str) -> None:
        """Take the last date before the text of a line, and how long an evaluation took."""
        if evaluated := _EVALUATED.search(text, 0, _PREFIX):
            self._evaluated[number] = float(evaluated[1]) / 1000
        dates = _DATE.findall(text, 0, _PREFIX)
        if dates:
            year, *parts, fraction = dates[-1]
            month, day, hour, minute, second = (int(part) for part in parts if part)
            try:
                days = datetime.date(int(year or LEAP_YEAR), month, day).toordinal()
            except ValueError:
                return
            whole = (days * 24 + hour) * 3600 + minute * 60 + second
            self._dates[number] = whole + float(f"0.{fraction or 0}")

    def step_times(
        self, rows: Rows, pauses: Mapping[int, str], unit: int
    ) -> dict[int, tuple[float, float]]:
        """Number of a step -> least and most seconds a step since the row before it, by
        their dates; none over a pause. ``pauses``: line number -> what is done;
        ``unit``: what numbers of steps rise by in each.
        """
        step, line, segment, clock = rows.columns("step", "line", "segment", "clock_s")
        date = np.where(clock >= 0, clock, self.of_lines(line))
        seconds, steps = np.diff(date), np.diff(step) / (unit or np.inf)
        before = np.searchsorted(np.sort(list(pauses)), line)
        usable = (seconds >= 0) & (steps > 0) & (np.diff(before) == 0) & (np.diff(segment) == 0)
        whole = bool((date[~np.isnan(date)] % 1 == 0).all())
        found = {}
        for at in np.flatnonzero(usable).tolist():
            least, most = seconds[at] - whole, seconds[at] + whole
            found[int(step[at + 1])] = float(least / steps[at]), float(most / steps[at])
        return found

    def holding(self, rows: Rows) -> list[int]:
        """The steps whose times hold the evaluation before them: the dates leave no room
        for it beside them.
        """
        step, line, segment, time, interval = rows.columns(
            "step", "line", "segment", "step_time_s", "interval"
        )
        rest = np.diff(self.of_lines(line)) - (time * interval)[1:]
        found = []
        for number, seconds in self._evaluated.items():
            at = int(np.searchsorted(line, number))
            inside = 0 < at < len(line) and segment[at] == segment[at - 1]
            # Dates of whole seconds may be a second off.
            if inside and rest[at - 1] < seconds / 2 - 1:
                found.append(int(step[at]))
        return found

    def pauses(self, rows: Rows, pauses: Mapping[int, str]) -> Iterator[Pause]:
        """Yield the pauses after steps, and the restarts, with the seconds that they
        took by the dates around them.
        """
        line, segment = rows.columns("line", "segment")
        again = np.append(np.diff(segment) > 0, False)
        found: dict[int, str] = {}
        begun = None
        for number, work in sorted(pauses.items()):
            at = int(np.searchsorted(line, number)) - 1
            if work == SAVED and begun is not None:
                at, begun = begun, None  # a checkpoint is written while steps are made
            elif work == CHECKPOINT:
                begun = at
            if at >= 0 and found.get(at) != SAVED:
                found[at] = work
        step = rows.column("step")
        rest = self._rest(rows, pauses)
        for at in sorted({*found, *np.flatnonzero(again).tolist()}):
            if at in found:
                yield Pause(found[at], int(step[at]), 0.0 if again[at] else float(rest[at]))
            if again[at]:
                yield Pause(RESTART, int(step[at]), float(rest[at]))

    def _rest(self, rows: Rows, pauses: Mapping[int, str]) -> Column:
        """Seconds after each row in which no step was made, by the dates of the rows, or
        else of the lines of ``pauses``; NaN if not known.
        """
        names = "line", "step_time_s", "tokens_per_s_per_gpu", "interval", "segment"
        line, time, rate, interval, segment = rows.columns(*names)
        date = self.of_lines(line)
        gap = np.append(np.diff(date), np.nan)
        if not (time > 0).any():
            alone = np.diff(np.searchsorted(np.sort(list(pauses)), line), append=0) == 0
            rate = np.where(rate > 0, rate, 1.0)
            clean = (gap / np.append(interval[1:] / rate[1:], 1.0))[alone & (gap >= 0)]
            time = (np.median(clean) if len(clean) else np.nan) / rate
        taken = np.where(time > 0, time * interval, np.nan)
        rest = gap - np.append(taken[1:], np.nan)
        if np.isnan(date).all():
            dated = np.array([number for number in sorted(pauses) if number in self._dates], int)
            after = np.searchsorted(line, dated)
            made = np.append(0.0, np.cumsum(taken))[after]
            over = np.diff(self.of_lines(dated)) - np.diff(made)
            one = np.diff(np.append(segment, segment[-1:])[np.maximum(after - 1, 0)]) == 0
            rest[(after - 1)[1:][one]] = over[one]
        return np.where(np.isfinite(rest), np.maximum(rest, 0.0), np.nan)

    def of_lines(self, line: Column) -> Column:
        """The date of each line; NaN without one."""
        return np.array([self._dates.get(number, np.nan) for number in line.tolist()])
