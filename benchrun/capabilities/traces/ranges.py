"""Ranges that the program marks (NVTX, annotations): time on the host, and on the
device for what they launched.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .events import PROCESS_BITS, Events, RankTrace
from .intervals import Intervals, Times
from .window import TraceWindow, launching_calls

SHOWN = 20
_NUMBERED = re.compile(r",? ?(seq|op_id|stream_id) = \d+|[#:= ]+\d+$")


@dataclass(frozen=True)
class Range:
    """All ranges of one name; times in ns."""

    name: str
    count: int
    host: int
    """Union of the ranges."""
    device: int | None
    """Union of what their process launched on the device while they were open; None if
    launches are unknown.
    """


def unnumbered(name: str) -> str:
    """``name`` without the numbers of an operator or a step: ranges that differ in
    these alone are of one kind.
    """
    return _NUMBERED.sub("", name)


def ranges_of(trace: RankTrace, window: TraceWindow) -> list[Range]:
    """The names with the longest time on the host, at most SHOWN, longest first."""
    ranges = trace.ranges.where(_inside(trace.ranges.times, window))
    names = {}
    for number in np.unique(ranges.name):
        names[int(number)] = unnumbered(trace.names[number])
    labels = np.array([names[int(number)] for number in ranges.name], dtype=object)
    totals = {
        name: _part(ranges.times.where(labels == name), window).length()
        for name in dict.fromkeys(names.values())
    }
    chosen = sorted(totals, key=lambda name: -totals[name])[:SHOWN]
    call = launching_calls(trace.device_events, trace.calls)
    return [
        Range(
            name,
            int((labels == name).sum()),
            totals[name],
            _device_time(trace, ranges.where(labels == name), call, window),
        )
        for name in chosen
    ]


def _inside(times: Intervals, window: TraceWindow) -> NDArray[np.bool_]:
    """Mask of the ranges in the window: of whole steps, those that start in them and
    those around all of them.
    """
    if window.host is None:
        return (times.end > window.first) & (times.start < window.last)
    first, last = window.host
    return ((times.start >= first) & (times.start < last)) | (
        (times.start <= first) & (times.end >= last)
    )


def _part(times: Intervals, window: TraceWindow) -> Intervals:
    """Part of the times in the steps of the window; all of them if the window is not of
    steps.
    """
    if window.host is None:
        return times
    return times.clip(*window.host)


def _device_time(trace: RankTrace, ranges: Events, call: Times, window: TraceWindow) -> int | None:
    """Device time that any thread of a process launched while one of its ranges was
    open: autograd has its own thread.
    """
    if trace.calls is None or not (call >= 0).any():
        return None
    launched = trace.calls.times.start[np.maximum(call, 0)]
    process = trace.calls.place[np.maximum(call, 0)] & PROCESS_BITS
    of_ranges = ranges.place & PROCESS_BITS
    mine = np.zeros(len(launched), bool)
    for each in np.unique(of_ranges):
        union = ranges.times.where(of_ranges == each).merged()
        index = np.searchsorted(union.start, launched, side="right") - 1
        mine |= (call >= 0) & (process == each) & (index >= 0) & (launched < union.end[index])
    return trace.device_events.times.where(mine).clip(window.first, window.last).length()
