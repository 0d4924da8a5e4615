"""Sentences on what the window from the first device event to the last does not show."""

from collections.abc import Iterator, Sequence

import numpy as np

from .events import RankTrace
from .idle import idle_by_cause, waits_for_data
from .intervals import Intervals
from .window import TraceWindow, window_of

SHOWN = 0.05
"""Share of the window below which time outside it, or a difference to whole steps, is
not worth a word.
"""
NS = 1e9
_WORDS = {"data": "for data", "host": "for the host", "sync": "after a synchronise"}


def notes_on(parts: Sequence[tuple[RankTrace, TraceWindow]]) -> Iterator[str]:
    """At most one sentence on time outside the window, and one on whole steps; of the
    first rank that has each.
    """
    for words in (_outside, _whole_steps):
        if note := next((note for trace, window in parts if (note := words(trace, window))), None):
            yield note


def _outside(trace: RankTrace, window: TraceWindow) -> str | None:
    """Calls and ranges of the host before the first device event and after the last."""
    host = []
    for events in (trace.calls, trace.ranges):
        if events is not None and len(events):
            host.append(events.times)
    if not host:
        return None
    first = min(int(times.start.min()) for times in host)
    last = max(int(times.end.max()) for times in host)
    before = max(window.first - first, 0)
    after = max(last - window.last, 0)
    if before + after < SHOWN * window.length:
        return None
    edges = Intervals(
        np.array([first, window.last]), np.array([max(first, window.first), max(last, window.last)])
    )
    data = int(edges.overlap_with(waits_for_data(trace)).sum())
    waits = ""
    if data:
        waits = f", of which the host waits for data in {data / NS:.3g} s"
    where = (
        f"{before / NS:.3g} s before the first event of the GPU, {after / NS:.3g} s after the last"
    )
    return f"rank {trace.rank}: the host works outside this window, {where}{waits}"


def _whole_steps(trace: RankTrace, window: TraceWindow) -> str | None:
    """Sentence if whole marked steps are idle for another cause than the window, which
    has half a step at either end.
    """
    steps = window_of(trace, "steps")
    if steps is None or steps.length <= 0:
        return None
    own = idle_by_cause(trace, window)
    whole = idle_by_cause(trace, steps)
    if own is None or whole is None:
        return None
    shares = {
        name: (getattr(own, name) / window.length, getattr(whole, name) / steps.length)
        for name in _WORDS
    }
    name, (here, there) = max(shares.items(), key=lambda item: item[1][1] - item[1][0])
    if there - here < SHOWN:
        return None
    return (
        f"rank {trace.rank}: whole steps (--window steps) are idle {_WORDS[name]} in {100 * there:.1f} % of their time,"
        f" this window in {100 * here:.1f} %"
    )
