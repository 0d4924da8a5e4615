"""Why a GPU was idle: data, a synchronise, the host, or the gap between a launch and its start.

A gap lies between two device events. If the host called CUDA for the event that ends the gap only after the gap had
begun, the host was late; else the work was queued and only its launch took time. Of a gap in which the host was late,

- the time that the launching thread waited for a batch is ``data``,
- then ``sync`` is at most as long as the host had been blocked when the gap began: without that wait, it would have
  come so much earlier,
- the rest is ``host``.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.trace.events import Events, RankTrace
from benchrun.trace.intervals import Intervals, Times, union_of
from benchrun.trace.kineto import LOADER
from benchrun.trace.window import Window, launching_calls

SYNCHRONISE = re.compile(r"synchronize|cu(da)?memcpy(?!\w*async)|EventSynchronize|hip\w*synchronize", re.I)
"""Calls in which the host waits for the GPU."""


class Idle(NamedTuple):
    """Idle time of one rank by cause, in ns."""

    host: int
    launch_gap: int
    data: int
    sync: int


def idle_by_cause(trace: RankTrace, window: Window) -> Idle | None:
    """Idle time in the window; None where the trace has no calls of the host. The causes add up to all idle time."""
    if trace.calls is None or not len(trace.calls):
        return None
    gaps, calls = _gaps(trace, window), trace.calls
    call = _calls_that_end(gaps, trace)
    launched = np.where(call >= 0, calls.times.start[np.maximum(call, 0)], np.iinfo(np.int64).min)
    late = launched > gaps.start
    length = gaps.end - gaps.start
    thread = np.where(call >= 0, calls.place[np.maximum(call, 0)], -1)
    data = np.where(late, _in_loader(gaps, thread, trace), 0)
    blocked = np.where(late, _blocked_before(gaps.start, _named(calls, trace, SYNCHRONISE)), 0)
    sync = np.minimum(length - data, blocked)
    host = np.where(late, length - data - sync, 0)
    return Idle(int(host.sum()), int(length[~late].sum()), int(data.sum()), int(sync.sum()))


def _gaps(trace: RankTrace, window: Window) -> Intervals:
    """The times in the window without a device event. An event that runs over the edge of the window is cut there."""
    edges = Intervals(np.array([window.first, window.last]), np.array([window.first, window.last]))
    return union_of(trace.device_events.times.clip(window.first, window.last), edges).gaps()


def _calls_that_end(gaps: Intervals, trace: RankTrace) -> Times:
    """The index of the call that launched the first device event at or after the end of each gap; -1 if unknown."""
    events = trace.device_events
    first = np.minimum(np.searchsorted(events.times.start, gaps.end), len(events) - 1)
    return launching_calls(events, trace.calls)[first]


def _in_loader(gaps: Intervals, thread: Times, trace: RankTrace) -> Times:
    """Nanoseconds of each gap in which the thread that launched next waited for data."""
    waits = np.zeros(len(gaps.start), np.int64)
    loader = _named(trace.ranges, trace, LOADER)
    for each in np.unique(thread[thread >= 0]):
        mine = thread == each
        ranges = loader.times.where(loader.place == each)
        # A wait inside a CUDA call is the driver's.
        system, calls = trace.waits.times.where(trace.waits.place == each), _of_thread(trace.calls, each)
        outside = system.where(system.overlap_with(calls) == 0)
        waits[mine] = gaps.where(mine).overlap_with(union_of(ranges, outside))
    return waits


def _blocked_before(moments: Times, waits: Events) -> Times:
    """How long the host had been in a synchronising call at each moment, in ns; 0 if it was in none."""
    if not len(waits):
        return np.zeros(len(moments), np.int64)
    index = np.searchsorted(waits.times.start, moments, side="right") - 1
    inside = (index >= 0) & (waits.times.end[index] >= moments)
    return np.where(inside, moments - waits.times.start[index], 0)


def _named(events: Events, trace: RankTrace, pattern: re.Pattern[str]) -> Events:
    """The events whose names contain ``pattern``."""
    matches = {int(number): bool(pattern.search(trace.names[number])) for number in np.unique(events.name)}
    chosen: NDArray[np.bool_] = np.array([matches[int(number)] for number in events.name], dtype=bool)
    return events.where(chosen)


def _of_thread(calls: Events | None, thread: int) -> Intervals:
    assert calls is not None
    return calls.times.where(calls.place == thread)
