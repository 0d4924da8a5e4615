"""Step rows: one step as a tuple, and the rows of a log as columns."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .columns import Column, Columns
from .turns import Turns

SAME_STEP = 0.1
"""Two rows of one step and one loss that differ by less than this in time are the same
work, seen by two ranks.
"""
BEGINNING = 0.1
"""This part of a training's steps is its beginning: no checkpoint of a whole training
leads back to it.
"""
SAME_BATCH = 0.02
"""Relative tolerance of a batch: one that ranks cannot share evenly is made a little
smaller than printed.
"""
LARGEST_STEP = 1 << 62
LONGEST_INTERVAL = (1 << 31) - 1


class Step(NamedTuple):
    """One step row. Times and rates are means over ``interval`` steps if the framework
    prints means.
    """

    step: int
    """Number as printed; MLPerf's NeMo logs count tokens."""
    step_time_s: float | None
    """Seconds of the step; None if the log gives a rate only (torchtitan) or none at
    all.
    """
    line: int
    segment: int = 0
    """Counts restarts within one log."""
    interval: int = 1
    """Steps that this row stands for."""
    loss: float | None = None
    grad_norm: float | None = None
    global_batch_size: int | None = None
    tflops_per_gpu: float | None = None
    """TFLOPS as reported, under whatever convention the framework uses."""
    tokens_per_s_per_gpu: float | None = None
    """Rate as reported."""
    skipped: int = 0
    nan: int = 0
    mfu: float | None = None
    """MFU as reported, a fraction."""
    samples_per_s: float | None = None
    """Rate of all ranks as reported: the step's time follows from it if the batch is
    known.
    """
    consumed_samples: float | None = None
    """Samples of all steps so far."""
    clock_s: float | None = None
    """Time after the step by a clock beside that of the step times, in s since any."""

    @property
    def clock(self) -> float | None:
        """Value that tells how long the step took, its time or a rate; None without
        any.
        """
        return self.step_time_s or self.tokens_per_s_per_gpu or self.samples_per_s


WRITTEN = Step._fields[: Step._fields.index("samples_per_s")]
"""The columns that a file of steps has."""
TYPES = {name: "d" if "float" in str(kind) else "i" for name, kind in Step.__annotations__.items()}
TYPES |= {"step": "q", "line": "I", "skipped": "H", "nan": "H"}
"""The fields of a Step, in its order, and the type code of each column."""


def _apart(earlier: Step, row: Step) -> float | None:
    """Relative distance of the times of two rows, or of their rates; None if a row has
    neither.
    """
    new, old = row.clock, earlier.clock
    if new and old:
        return abs(new / old - 1)
    return None


class Rows(Columns):
    """Step rows in the order of the log, in columns.

    A step printed again keeps its last row. A step number that falls opens a segment (a
    restart), unless the row only repeats one that is known: other ranks and nodes may
    print the same step a little later. So the rows are in the order of (segment, step).
    After the last planned step the beginning is that of another training, not a
    restart.
    """

    def __init__(self, rows: Iterable[Step] = ()) -> None:
        super().__init__(TYPES)
        self.segments = 0
        """Number of times that training (re)started; 0 without a row."""
        self.began = 0
        """Index of the first row of the last training; 0 if there is but one."""
        self.ended = False
        """The last planned step of that training was made, or its program says that it is done."""
        self.repeats = 0
        """Rows that repeated one: several ranks print."""
        self.conflicts: set[int] = set()
        """Steps that were printed again at once with another loss."""
        self.other_clocks = array("d")
        """Relative distances of the times of rows with the same loss and a time of
        their own.
        """
        self.again = False
        """The job failed and started again after the last row."""
        self.turns = Turns()
        self.mixed = False
        """The dialect knows that the rows are those of two jobs."""
        self._start = 0
        self._last = -1
        self._repeated = -1
        """Index of the row that was last printed again: its successor often is the next
        one.
        """
        for row in rows:
            self.add(row)

    def add(self, row: Step, *, averages: bool = False, end: int | None = None) -> None:
        """Take one row. With ``averages`` it stands for all the steps since the row
        before it.

        ``end``: the last planned step.
        """
        number = row.step
        if number > LARGEST_STEP:
            return
        interval, segment = min(row.interval, LONGEST_INTERVAL), self.segments
        if number > self._last and segment:
            segment -= 1
            if averages:
                interval = min(number - self._last, LONGEST_INTERVAL)
                # The first row of a segment covers as many steps as the second row, if
                # that many steps were made.
                if len(self) == self._start + 1 and self._last >= interval - 1:
                    self.put(self._start, self[self._start]._replace(interval=interval))
        elif self._begins_again(number):
            self.began = self._start = len(self)
            self.segments += 1
            self.ended = False
        elif segment and (index := self._repeats(row)) is not None:
            self._compare(self[index], row)
            self.put(index, row._replace(interval=self[index].interval, segment=segment - 1))
            self.repeats += 1
            return
        else:
            self._start = len(self)
            self.segments += 1
        self.append((*row[:3], segment, interval, *row[5:]))
        self._last = number
        self.again = False
        self.turns.take(number)
        self.ended |= end is not None and number >= end

    def _compare(self, earlier: Step, row: Step) -> None:
        """Note if a row is not quite the one that it repeats."""
        if earlier.loss is not None and row.loss is not None and earlier.loss != row.loss:
            self.conflicts.add(row.step)
            self.turns.take(row.step)
        elif (apart := _apart(earlier, row)) is not None:
            self.other_clocks.append(apart)

    def _begins_again(self, number: int) -> bool:
        """Whether a step number that does not rise is one of another training's
        beginning.
        """
        if not self.ended or self._start == len(self) - 1:
            return False
        first, last = self[self.began].step, self[len(self) - 1].step
        return number <= first + BEGINNING * (last - first)

    def extend(
        self, values: Mapping[str, Any], *, averages: bool = False, end: int | None = None
    ) -> None:
        """Take many rows, column by column; ``step`` and ``line`` are arrays, what all
        rows share may be one value.
        """
        steps = values["step"]
        rows = len(steps)
        gaps = np.diff(steps, prepend=self._last)
        rising = (gaps > 0).all() and (gaps <= LONGEST_INTERVAL).all() and steps[-1] <= LARGEST_STEP
        # Two rows settle the segment and its first interval; the others only continue
        # it.
        alone = min(rows, 2) if rising else rows
        every = {name: np.broadcast_to(column, rows) for name, column in values.items()}
        first = {name: column[:alone] for name, column in every.items()}
        for row in Rows.of({"interval": 1, **first}, segments=0):
            self.add(row, averages=averages, end=end)
        if alone < rows:
            rest = {name: column[alone:] for name, column in every.items()}
            if averages:
                rest["interval"] = np.diff(steps[alone:], prepend=self._last)
            self.append_columns({"interval": 1, **rest, "segment": self.segments - 1}, rows - alone)
            self._last = int(steps[-1])
            self.turns.take_rising(steps[alone:])
            self.ended |= end is not None and self._last >= end

    def new_segment(self) -> None:
        """Begin another run, whatever its step numbers."""
        if self.segments and self._last >= 0:
            self._start, self._last = len(self), LARGEST_STEP

    def _repeats(self, row: Step) -> int | None:
        """Index of this segment's row that ``row`` repeats; None if ``row`` starts a
        new segment.
        """
        if row.step == self._last:
            return len(self) - 1
        index = self._repeated + 1
        if not self._start <= index < len(self) or self[index].step != row.step:
            index = bisect_left(
                range(len(self)), row.step, self._start, key=lambda at: self[at].step
            )
        if index == len(self):
            return None
        self._repeated = index
        earlier = self[index]
        if earlier.step != row.step or earlier.loss != row.loss or self.again:
            return None
        norms = {earlier.grad_norm, row.grad_norm} - {None}
        if len(norms) > 1:
            return None  # the same step of another start
        apart = _apart(earlier, row)
        if apart is not None and apart < SAME_STEP:
            return index
        return None

    def __getitem__(self, index: int) -> Step:
        return Step(*self.row(index))

    def __iter__(self) -> Iterator[Step]:
        return map(self.__getitem__, range(len(self)))

    @classmethod
    def of(cls, columns: Mapping[str, Any], segments: int, began: int = 0) -> "Rows":
        """Rows that are complete."""
        rows = cls()
        rows.append_columns(columns, len(columns["step"]))
        rows.segments, rows.began = segments, began
        return rows

    def chosen(self, rows: Any, **changed: Column) -> "Rows":
        """Some of the rows, by their indices or as a slice, with some columns
        ``changed``.
        """
        columns = {name: changed.get(name, self.column(name))[rows] for name in TYPES}
        some = Rows.of(columns, self.segments, self.began)
        some.repeats, some.conflicts = self.repeats, self.conflicts
        some.other_clocks, some.turns, some.mixed = self.other_clocks, self.turns, self.mixed
        return some

    def last_training(self, began: int) -> "Rows":
        """The rows of the last training, from index ``began``, as though there were no
        other before it.
        """
        last = self.chosen(slice(began, None))
        before = int(last.column("segment").min(initial=self.segments))
        columns = {name: last.column(name) for name in TYPES}
        return Rows.of({**columns, "segment": columns["segment"] - before}, self.segments - before)

    def distinct(self) -> "Rows":
        """One row per step number, the last one of the log, in the order of the
        numbers: the work that was kept.
        """
        if self.segments <= 1:
            return self
        step = self.column("step")
        order = np.argsort(step, kind="stable")
        return self.chosen(order[np.append(np.diff(step[order]) != 0, True)])

    def batches(self) -> tuple[Column, Column]:
        """The batch of each row and whether its mean spans a change of it; of such a row
        the samples that it consumed a step. NaN if not known.
        """
        step, interval, batch, samples = (
            np.where(column >= 0, column, np.nan)
            for column in self.columns("step", "interval", "global_batch_size", "consumed_samples")
        )
        mean = np.diff(samples, prepend=np.nan) / np.diff(step, prepend=np.nan)
        known = np.diff(batch, prepend=batch[:1])
        grew = (known != 0) & ~np.isnan(known) & (interval > 1)
        spans = grew & ~(np.abs(mean - batch) <= SAME_BATCH * batch)
        return np.where(spans, mean, batch), spans

    @property
    def last_step(self) -> int | None:
        """The largest step number; None without a row."""
        if len(self):
            return int(self.column("step").max())
        return None
