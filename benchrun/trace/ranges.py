"""Ranges that the program marks (NVTX, annotations): time on the host, and on the device for what they launched."""

import re
from dataclasses import dataclass

import numpy as np

from benchrun.trace.events import Events, RankTrace
from benchrun.trace.intervals import Times
from benchrun.trace.window import Window, launching_calls

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
    """Union of the device events that they launched from the same thread; None where launches are unknown."""


def unnumbered(name: str) -> str:
    """``name`` without the numbers of an operator or a step: ranges that differ in these alone are of one kind."""
    return _NUMBERED.sub("", name)


def ranges_of(trace: RankTrace, window: Window) -> list[Range]:
    """The names with the longest time on the host, at most SHOWN, longest first."""
    times = trace.ranges.times
    inside = (times.end > window.first) & (times.start < window.last)
    ranges = trace.ranges.where(inside)
    names = {int(number): unnumbered(trace.names[number]) for number in np.unique(ranges.name)}
    labels = np.array([names[int(number)] for number in ranges.name], dtype=object)
    totals = {name: ranges.times.where(labels == name).length() for name in dict.fromkeys(names.values())}
    chosen = sorted(totals, key=lambda name: -totals[name])[:SHOWN]
    call = launching_calls(trace.device_events, trace.calls)
    return [
        Range(name, int((labels == name).sum()), totals[name], _device_time(trace, ranges.where(labels == name), call))
        for name in chosen
    ]


def _device_time(trace: RankTrace, ranges: Events, call: Times) -> int | None:
    if trace.calls is None or not (call >= 0).any():
        return None
    launched, thread = trace.calls.times.start[np.maximum(call, 0)], trace.calls.place[np.maximum(call, 0)]
    mine = np.zeros(len(launched), bool)
    for each in np.unique(ranges.place):
        union = ranges.times.where(ranges.place == each).merged()
        index = np.searchsorted(union.start, launched, side="right") - 1
        mine |= (call >= 0) & (thread == each) & (index >= 0) & (launched < union.end[index])
    return trace.device_events.times.where(mine).length()
