"""The part of a trace that a fingerprint describes: from the first device event to the last, or whole steps."""

import re
from typing import Literal, NamedTuple

import numpy as np

from benchrun.trace.events import Events, RankTrace
from benchrun.trace.intervals import Intervals, Times

Choice = Literal["device", "steps"]
STEP = re.compile(r"^(ProfilerStep#\d+|(train(ing)?[ _-]?)?(step|iteration|iter|global_step)[ _#:=-]*\d+)$", re.I)
"""Names of a range around one step; the number makes it one of several."""
SAME_NAME = re.compile(
    r"^(train(ing)?_?)?(step|iteration|train_batch|train_step|forward_backward|(\[pl\]\[profile\])?run_training_batch)$",
    re.I,
)
"""Names of a range that every step repeats."""
KEEP = 3
"""Whole steps from which on the first is dropped too: it may hold compilation and warm-up."""


class Window(NamedTuple):
    """A part of a trace, in ns of its clock."""

    first: int
    last: int
    steps: int | None
    """Whole steps in it; None where none are marked."""

    @property
    def length(self) -> int:
        """In ns."""
        return self.last - self.first


def window_of(trace: RankTrace, choice: Choice) -> Window | None:
    """The chosen part; None for ``steps`` where fewer than two starts of steps can be recognised."""
    if choice == "device":
        times = trace.device_events.times
        return Window(int(times.start.min()), int(times.end.max()), len(_marks(trace)) or None)
    starts = step_starts(trace)
    if len(starts) < 2:
        return None
    whole = starts[1:] if len(starts) - 1 > KEEP else starts
    return Window(int(whole[0]), int(whole[-1]), len(whole) - 1)


def step_starts(trace: RankTrace) -> Times:
    """When the device began each step, in ns: by marked ranges, else by the largest recurring collective's end."""
    marks = _marks(trace)
    return _on_device(trace, marks) if len(marks) else _ends_of_collective(trace)


def _marks(trace: RankTrace) -> Times:
    """Starts of the ranges around steps, on the host's clock; of nested ones those that cover the most time."""
    for expression in (STEP, SAME_NAME):
        kinds: dict[str, list[int]] = {}
        for number, name in enumerate(trace.names):
            if expression.match(name):
                kinds.setdefault(name.rstrip("0123456789"), []).append(number)
        times = [trace.ranges.times.where(np.isin(trace.ranges.name, numbers)) for numbers in kinds.values()]
        longest = max(times, key=Intervals.length, default=None)
        if longest is not None and len(longest.start):
            return np.unique(longest.start)
    return np.zeros(0, np.int64)


def _on_device(trace: RankTrace, marks: Times) -> Times:
    """The first start of a device event that the host launched after each mark; the marks where launches are unknown.

    The device runs behind the host, so a step's first kernel starts later than its mark.
    """
    launched = launches(trace)
    linked = launched >= 0
    if not linked.any():
        return marks
    order = np.argsort(launched[linked], kind="stable")
    times, starts = launched[linked][order], trace.device_events.times.start[linked][order]
    earliest = np.minimum.accumulate(starts[::-1])[::-1]
    index = np.searchsorted(times, marks)
    return np.unique(earliest[index[index < len(earliest)]])


def launches(trace: RankTrace) -> Times:
    """When the host called CUDA for each device event, in ns; -1 where that is unknown."""
    number = launching_calls(trace.device_events, trace.calls)
    if trace.calls is None or not len(trace.calls):
        return number
    return np.where(number >= 0, trace.calls.times.start[np.maximum(number, 0)], -1)


def launching_calls(events: Events, calls: Events | None) -> Times:
    """The index of the call that launched each device event; -1 where it is unknown."""
    if calls is None or not len(calls):
        return np.full(len(events), -1, np.int64)
    order = np.argsort(calls.link, kind="stable")
    links = calls.link[order]
    place = np.minimum(np.searchsorted(links, events.link), len(links) - 1)
    return np.where((links[place] == events.link) & (events.link >= 0), order[place], -1)


def _ends_of_collective(trace: RankTrace) -> Times:
    """Ends of the collective that takes longest among those that recur at even distances; none where none does."""
    from benchrun.trace.kernels import classified

    classes = classified(trace)
    communication = classes.events.where(classes.number == 3)
    best, longest = np.zeros(0, np.int64), 0.0
    for number in np.unique(communication.name):
        chosen = communication.where(communication.name == number)
        distances = np.diff(chosen.times.end)
        if len(distances) < 2 or distances.std() > 0.2 * distances.mean():
            continue
        mean = float((chosen.times.end - chosen.times.start).mean())
        if mean > longest:
            best, longest = chosen.times.end, mean
    return best
