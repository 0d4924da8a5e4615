"""The program's own clock: the date that its logger prints before a step.

Dates that a container engine or a log collector adds (ISO 8601 with a ``T``) say when a
line arrived, which may be long after it was printed, and many lines at once. They are
left alone.
"""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from .columns import Column
from .records import Pause
from .rows import Rows

PAUSES = (
    *(b"alidation loss", b"alidate step", b"alidation: iteration", b"alidation DataLoader"),
    *(b"unning Evaluation", b"unning evaluation", b"eval metrics", b"'eval_loss'", b'"eval_loss"'),
    *(b"aving checkpoint", b"aving the checkpoint", b"aving model checkpoint"),
    *(b"aved checkpoint", b"aved a checkpoint", b"[Torch] Saving"),
)
"""Words of a line that tells of an evaluation or a checkpoint: time between two steps."""
CHECKPOINT, EVALUATION = "checkpoint", "evaluation"
MOST_OF_A_BLOCK = 256
"""Dates that are read of a block of many alike lines."""
_DATE = re.compile(
    r"(?:\b20\d\d[-/](\d\d)[-/](\d\d)|\b[IWE](\d\d)(\d\d)) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
)
_PREFIX = 200
"""Characters of a line in which its own date stands."""


def work_of(text: str) -> str:
    """What a line with one of PAUSES tells of."""
    if "aving" in text or "aved" in text:
        return CHECKPOINT
    return EVALUATION


class Stamps:
    """The dates of one program's step lines."""

    def __init__(self) -> None:
        self._dates: dict[int, float] = {}
        """Number of the line -> date, in s; every month has 31 days."""

    def take(self, number: int, text: str) -> None:
        """Take the last date before the text of a line."""
        dates = _DATE.findall(text, 0, _PREFIX)
        if dates:
            *parts, fraction = dates[-1]
            month, day, hour, minute, second = (int(part) for part in parts if part)
            whole = ((31 * month + day) * 24 + hour) * 3600 + minute * 60 + second
            self._dates[number] = whole + float(f"0.{fraction or 0}")

    def step_times(self, rows: Rows, pauses: Mapping[int, str]) -> dict[int, tuple[float, float]]:
        """Number of a step -> least and most seconds a step since the row before it, by
        their dates; none over a pause. ``pauses``: line number -> what is done.
        """
        step, line, segment = rows.columns("step", "line", "segment")
        date = self.of_lines(line)
        seconds, steps = np.diff(date), np.diff(step)
        before = np.searchsorted(np.sort(list(pauses)), line)
        usable = (seconds >= 0) & (steps > 0) & (np.diff(before) == 0) & (np.diff(segment) == 0)
        whole = bool((date[~np.isnan(date)] % 1 == 0).all())
        found = {}
        for at in np.flatnonzero(usable).tolist():
            least, most = seconds[at] - whole, seconds[at] + whole
            found[int(step[at + 1])] = float(least / steps[at]), float(most / steps[at])
        return found

    def pauses(self, rows: Rows, pauses: Mapping[int, str]) -> Iterator[Pause]:
        """Yield the pauses after steps, and the restarts, with the seconds that they
        took by the dates of the rows around them.
        """
        step, line, segment, time, interval = rows.columns(
            "step", "line", "segment", "step_time_s", "interval"
        )
        rest = np.diff(self.of_lines(line)) - (time * interval)[1:]
        rest = np.append(np.where(np.isfinite(rest), np.maximum(rest, 0.0), np.nan), np.nan)
        found = {}
        for at in np.flatnonzero(np.diff(segment)).tolist():
            found[at] = "restart"
        for number, work in sorted(pauses.items()):
            at = int(np.searchsorted(line, number)) - 1
            if at >= 0:
                found.setdefault(at, work)
        for at, work in sorted(found.items()):
            yield Pause(work, int(step[at]), float(rest[at]))

    def of_lines(self, line: Column) -> Column:
        """The date of each line; NaN without one."""
        return np.array([self._dates.get(number, np.nan) for number in line.tolist()])
