"""Causes of a GPU's idle time: data, a synchronise, the host, or the gap between a
launch and its start.

A gap lies between two device events. If the host called CUDA for the event that ends
the gap only after the gap had begun, the host was late; else the work was queued and
only its launch took time. Of a gap in which the host was late,

- the time that the launching thread waited for a batch is ``data``,
- then ``sync`` is at most as long as the host had been blocked when the gap began: without that wait, it would have
  come so much earlier,
- the rest is ``host``.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .events import Events, RankTrace
from .intervals import NONE, Intervals, Times, union_of
from .loader import LOADER
from .window import TraceWindow, launching_calls

SYNCHRONISE = re.compile(
    r"synchronize|cu(da)?memcpy(?!\w*async)|EventSynchronize|hip\w*synchronize", re.I
)
"""Calls in which the host waits for the GPU."""


class Idle(NamedTuple):
    """Idle time of one rank by cause, in ns."""

    host: int
    launch_gap: int
    data: int
    sync: int


def idle_by_cause(trace: RankTrace, window: TraceWindow) -> Idle | None:
    """Idle time in the window; the causes add up to all of it.

    None if the trace has no calls of the host, or none that it links with what it
    launched.
    """
    if trace.calls is None or not len(trace.calls):
        return None
    launching = launching_calls(trace.device_events, trace.calls)
    if not (launching >= 0).any():
        return None
    gaps = _gaps(trace, window)
    calls = trace.calls
    call = launching[_events_that_end(gaps, trace.device_events)]
    launched = np.where(call >= 0, calls.times.start[np.maximum(call, 0)], np.iinfo(np.int64).min)
    late = launched > gaps.start
    length = gaps.end - gaps.start
    thread = np.where(call >= 0, calls.place[np.maximum(call, 0)], -1)
    data = np.where(late, _in_loader(gaps, thread, trace), 0)
    blocked = np.where(late, _blocked_before(gaps.start, _named(calls, trace, SYNCHRONISE)), 0)
    sync = np.minimum(length - data, blocked)
    host = np.where(late, length - data - sync, 0)
    return Idle(int(host.sum()), int(length[~late].sum()), int(data.sum()), int(sync.sum()))


def _gaps(trace: RankTrace, window: TraceWindow) -> Intervals:
    """The times in the window without a device event. An event that runs over the edge
    of the window is cut there.
    """
    edges = Intervals(np.array([window.first, window.last]), np.array([window.first, window.last]))
    return union_of(trace.device_events.times.clip(window.first, window.last), edges).gaps()


def _events_that_end(gaps: Intervals, events: Events) -> Times:
    """The index of the first device event at or after the end of each gap."""
    return np.minimum(np.searchsorted(events.times.start, gaps.end), len(events) - 1)


def _in_loader(gaps: Intervals, thread: Times, trace: RankTrace) -> Times:
    """Nanoseconds of each gap in which the thread that launched next waited for data."""
    waits = np.zeros(len(gaps.start), np.int64)
    for each in np.unique(thread[thread >= 0]):
        mine = thread == each
        waits[mine] = gaps.where(mine).overlap_with(_of_loader(trace, int(each)))
    return waits


def waits_for_data(trace: RankTrace) -> Intervals:
    """Times at which any thread that launches waited for data."""
    if trace.calls is None:
        return NONE
    return union_of(NONE, *(_of_loader(trace, int(each)) for each in np.unique(trace.calls.place)))


def _of_loader(trace: RankTrace, thread: int) -> Intervals:
    """Times at which ``thread`` waited for data: in ranges of a loader, and in the
    system outside of CUDA.
    """
    loader = _named(trace.ranges, trace, LOADER)
    ranges = loader.times.where(loader.place == thread)
    # A wait inside a CUDA call is the driver's.
    system = trace.waits.times.where(trace.waits.place == thread)
    calls = _of_thread(trace.calls, thread)
    return union_of(ranges, system.where(system.overlap_with(calls) == 0))


def _blocked_before(moments: Times, waits: Events) -> Times:
    """Time that the host had been in a synchronising call at each moment, in ns; 0 if
    it was in none.
    """
    if not len(waits):
        return np.zeros(len(moments), np.int64)
    index = np.searchsorted(waits.times.start, moments, side="right") - 1
    inside = (index >= 0) & (waits.times.end[index] >= moments)
    return np.where(inside, moments - waits.times.start[index], 0)


def _named(events: Events, trace: RankTrace, pattern: re.Pattern[str]) -> Events:
    """The events whose names contain ``pattern``."""
    matches = {}
    for number in np.unique(events.name):
        matches[int(number)] = bool(pattern.search(trace.names[number]))
    chosen: NDArray[np.bool_] = np.array(
        [matches[int(number)] for number in events.name], dtype=bool
    )
    return events.where(chosen)


def _of_thread(calls: Events | None, thread: int) -> Intervals:
    assert calls is not None
    return calls.times.where(calls.place == thread)
