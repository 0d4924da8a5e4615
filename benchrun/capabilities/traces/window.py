"""The part of a trace that a fingerprint describes: from the first device event to the
last, or whole steps.
"""

import re
from typing import Literal, NamedTuple

import numpy as np

from .events import Events, RankTrace
from .intervals import Intervals, Times

Choice = Literal["device", "steps"]
STEP = re.compile(
    r"^(ProfilerStep#\d+|(train(ing)?[ _-]?)?(step|iteration|iter|global_step)[ _#:=-]*\d+)$", re.I
)
"""Names of a range around one step; the number makes it one of several."""
SAME_NAME = re.compile(
    r"^(train(ing)?_?)?(step|iteration|train_batch|train_step|forward_backward|(\[pl\]\[profile\])?run_training_batch)$",
    re.I,
)
"""Names of a range that every step repeats."""
UNEVEN = 0.2
"""Standard deviation of the distances between two steps over their mean, up to which
they are even.
"""
RARER = 0.01
"""Most time of the events whose name occurs less often than the steps, as a share of
all device events.
"""
KEEP = 3
"""Whole steps from which on the first is dropped too: it may hold compilation and
warm-up.
"""


class TraceWindow(NamedTuple):
    """A part of a trace, in ns of its clock."""

    first: int
    last: int
    steps: int | None
    """Whole steps in it; None if none are known."""
    host: tuple[int, int] | None = None
    """Times at which the host began the first whole step and the one after the last."""
    collective: str | None = None
    """The kernel that separates the steps if no range marks them."""

    @property
    def length(self) -> int:
        """Length in ns."""
        return self.last - self.first


def window_of(trace: RankTrace, choice: Choice) -> TraceWindow | None:
    """The chosen part; None for ``steps`` if fewer than two starts of steps can be
    recognised.
    """
    marks = _marks(trace)
    if choice == "device":
        times = trace.device_events.times
        return TraceWindow(int(times.start.min()), int(times.end.max()), len(marks) or None)
    collective = None
    if not len(marks):
        collective = separating_collective(trace)
    begun, starts = (
        _on_device(trace, marks) if collective is None else 2 * (_ends(trace, collective),)
    )
    if len(starts) < 2:
        return None
    first = 1 if len(starts) - 1 > KEEP else 0
    return TraceWindow(
        int(starts[first]),
        int(starts[-1]),
        len(starts) - 1 - first,
        host=(int(begun[first]), int(begun[-1])),
        collective=None if collective is None else trace.names[collective],
    )


def _marks(trace: RankTrace) -> Times:
    """Starts of the ranges around steps, on the host's clock; of nested ones those that
    cover the most time.
    """
    for expression in (STEP, SAME_NAME):
        kinds: dict[str, list[int]] = {}
        for number, name in enumerate(trace.names):
            if expression.match(name):
                kinds.setdefault(name.rstrip("0123456789"), []).append(number)
        times = []
        for numbers in kinds.values():
            times.append(trace.ranges.times.where(np.isin(trace.ranges.name, numbers)))
        longest = max(times, key=Intervals.length, default=None)
        if longest is not None and len(longest.start):
            return np.unique(longest.start)
    return np.zeros(0, np.int64)


def _on_device(trace: RankTrace, marks: Times) -> tuple[Times, Times]:
    """Marks, and the first start of a device event that the host launched after each;
    twice the marks without launches.

    The device runs behind the host, so a step's first kernel starts later than its
    mark.
    """
    launched = launches(trace)
    linked = launched >= 0
    if not linked.any():
        return marks, marks
    order = np.argsort(launched[linked], kind="stable")
    times = launched[linked][order]
    starts = trace.device_events.times.start[linked][order]
    earliest = np.minimum.accumulate(starts[::-1])[::-1]
    index = np.searchsorted(times, marks)
    starts, first = np.unique(earliest[index[index < len(earliest)]], return_index=True)
    return marks[first], starts


def launches(trace: RankTrace) -> Times:
    """Times at which the host called CUDA for each device event, in ns; -1 if unknown."""
    number = launching_calls(trace.device_events, trace.calls)
    if trace.calls is None or not len(trace.calls):
        return number
    return np.where(number >= 0, trace.calls.times.start[np.maximum(number, 0)], -1)


def launching_calls(events: Events, calls: Events | None) -> Times:
    """The index of the call that launched each device event; -1 if it is unknown."""
    if calls is None or not len(calls):
        return np.full(len(events), -1, np.int64)
    order = np.argsort(calls.link, kind="stable")
    links = calls.link[order]
    place = np.minimum(np.searchsorted(links, events.link), len(links) - 1)
    return np.where((links[place] == events.link) & (events.link >= 0), order[place], -1)


def separating_collective(trace: RankTrace) -> int | None:
    """The kernel of the collective that takes longest among those that recur once a
    step; None if none does.
    """
    from .kernels import classified

    classes = classified(trace)
    communication = classes.events.where(classes.number == 3)
    best = None
    longest = 0.0
    for number in np.unique(communication.name).tolist():
        times = communication.times.where(communication.name == number)
        mean = float((times.end - times.start).mean())
        if mean > longest and _recur_by_step(trace.device_events, times.end):
            best = number
            longest = mean
    return best


def _recur_by_step(events: Events, ends: Times) -> bool:
    """Whether these ends of a kernel lie at even distances, and what the device does
    recurs between each two.

    Other work that recurs less often shows that they are parts of a step, as layers
    are.
    """
    distances = np.diff(ends)
    if len(distances) < 2 or distances.std() > UNEVEN * distances.mean():
        return False
    inside = events.where((events.times.start >= ends[0]) & (events.times.start < ends[-1]))
    length = inside.times.end - inside.times.start
    _, kind, count = np.unique(inside.name, return_inverse=True, return_counts=True)
    return bool(length[count[kind] < len(distances)].sum() <= RARER * length.sum())


def _ends(trace: RankTrace, kernel: int) -> Times:
    return np.sort(trace.device_events.times.end[trace.device_events.name == kernel])
