"""Traces -> fingerprint."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median

import numpy as np

from benchrun.errors import UserError
from benchrun.rundir import fingerprint as model

from .collectives import Collective, collectives
from .events import DeviceKind, Events, RankTrace, Tool
from .idle import idle_by_cause
from .intervals import Intervals, union_of
from .kernels import CLASSES, classified, kernels_of, unknown
from .messages import collective_name
from .outside import notes_on
from .ranges import Range, ranges_of
from .roofline import ProductTime, products_of
from .sentence import sentence
from .stragglers import stragglers
from .window import Choice, TraceWindow, window_of

SHOWN_UNKNOWN = 10
APART_S = 60
"""Seconds between the windows of two ranks: clocks of one cluster differ by less."""
NS = 1e9
MARK: dict[Tool, str] = {
    "kineto": "call the profiler's step() after each step",
    "nsys": "mark each step by an NVTX range 'step N'",
}
CALLS: dict[Tool, str] = {
    "kineto": "profile the CPU too",
    "nsys": "export the tables of CUDA calls too (nsys export without --tables)",
}
SIZES: dict[Tool, str] = {
    "kineto": "profile the CPU too, with record_shapes",
    "nsys": "they are read from torch's profiler alone (--profile kineto)",
}


def fingerprint(traces: Sequence[RankTrace], choice: Choice = "device") -> model.Fingerprint:
    """Measure where the time of each rank goes.

    UserError for whole steps of a trace that marks none.
    """
    parts = windows_of(traces, choice)
    inside = [(trace, classified(trace, _within(trace, window))) for trace, window in parts]
    listed = collectives(inside)
    lengths = [window.length for _, window in parts]
    strange = unknown(inside, sum(lengths))
    hosts = {trace.rank: trace.host for trace in traces}
    times = [rank_shares(trace, window) for trace, window in parts]
    exposed = {}
    for each in times:
        exposed[each.rank] = int(each.exposed_comm * each.window_s * NS)
    slow_ranks = []
    for slow in stragglers(listed, int(median(lengths)), exposed):
        late = model.StragglerTime(
            rank=slow.rank, host=hosts.get(slow.rank), behind_s=slow.behind / NS
        )
        slow_ranks.append(late)
    (first, window), (_, classes) = parts[0], inside[0]
    notes = list(_notes(parts, listed))
    if choice == "device":
        notes += notes_on(parts)
    result = model.Fingerprint(
        window=choice,
        window_s=median(lengths) / NS,
        steps=window.steps,
        ranks=times,
        collectives=[_collective(each) for each in listed],
        stragglers=slow_ranks,
        unknown_share=sum(share for _, share in strange),
        unknown_kernels=[
            model.UnknownKernel(name=name, share=share) for name, share in strange[:SHOWN_UNKNOWN]
        ],
        kernels=tuple(kernels_of(inside, sum(lengths))),
        ranges=[_range(each) for each in ranges_of(first, window)],
        products=[_product(each) for each in products_of(first, classes)],
        notes=notes,
    )
    return result.model_copy(update={"sentence": sentence(result)})


def windows_of(traces: Sequence[RankTrace], choice: Choice) -> list[tuple[RankTrace, TraceWindow]]:
    """The traces with their windows. UserError for whole steps of a trace that marks none."""
    return [(trace, _window(trace, choice)) for trace in traces]


def rank_shares(trace: RankTrace, window: TraceWindow) -> model.RankShares:
    """Shares of one rank's window."""
    clipped = classified(trace, _clipped(trace, window))
    whole = max(window.length, 1)
    compute = clipped.compute
    communication = clipped.of("communication")
    kernels = union_of(compute, communication)
    busy = union_of(kernels, clipped.copies).length()
    exposed = kernels.length() - compute.length()

    def share(nanoseconds: int) -> float:
        return nanoseconds / whole

    causes = None
    if idle := idle_by_cause(trace, window):
        causes = model.IdleByCause(
            **{cause: share(length) for cause, length in idle._asdict().items()}
        )
    return model.RankShares(
        rank=trace.rank or 0,
        device=trace.device,
        host=trace.host,
        gpu=trace.gpu,
        file=trace.file,
        window_s=window.length / NS,
        compute=share(compute.length()),
        exposed_comm=share(exposed),
        hidden_comm=share(communication.length() - exposed),
        copy=share(busy - kernels.length()),
        idle=share(window.length - busy),
        idle_by_cause=causes,
        classes=model.Classes(**{name: share(clipped.of(name).length()) for name in CLASSES}),
    )


def _window(trace: RankTrace, choice: Choice) -> TraceWindow:
    if window := window_of(trace, choice):
        if window.length > 0:
            return window
        raise UserError(
            "its events of a GPU have no length", where=trace.file, hint="profile whole steps"
        )
    message = "fewer than two steps are marked, and no collective recurs once a step"
    raise UserError(message, where=trace.file, hint=f"--window device; or {MARK[trace.tool]}")


def _within(trace: RankTrace, window: TraceWindow) -> Events:
    """The device events that start in the window."""
    start = trace.device_events.times.start
    return trace.device_events.where((start >= window.first) & (start < window.last))


def _clipped(trace: RankTrace, window: TraceWindow) -> Events:
    """The device events of the window, cut at its edges."""
    times = trace.device_events.times
    events = trace.device_events.where((times.end > window.first) & (times.start < window.last))
    start = np.maximum(events.times.start, window.first)
    end = np.minimum(events.times.end, window.last)
    return replace(events, times=Intervals(start, end))


def _seconds(nanoseconds: int | None) -> float | None:
    if nanoseconds is None:
        return None
    return nanoseconds / NS


def _range(each: Range) -> model.RangeTime:
    host_s = each.host / NS
    device_s = _seconds(each.device)
    return model.RangeTime(name=each.name, count=each.count, host_s=host_s, device_s=device_s)


def _product(each: ProductTime) -> model.ProductRow:
    return model.ProductRow(
        **each.shape._asdict(),
        count=each.count,
        seconds=each.seconds,
        tflops=each.tflops,
        of_peak=each.of_peak,
    )


def _collective(each: Collective) -> model.CollectiveTime:
    mean = len(each.ranks)
    return model.CollectiveTime(
        name=each.name,
        group=each.group,
        ranks=list(each.ranks),
        count=each.count,
        bytes=each.bytes,
        duration_s=sum(each.duration.values()) / mean / NS,
        transfer_s=_seconds(each.transfer),
        waiting_s=sum(each.waiting.values()) / mean / NS if each.waiting else None,
        busbw_gb_s=each.bus_gb_per_s,
    )


def _notes(
    parts: Sequence[tuple[RankTrace, TraceWindow]], listed: Sequence[Collective]
) -> Iterator[str]:
    """Say what these traces cannot show, and what would."""
    traces = [trace for trace, _ in parts]
    if any((trace.device_events.kind == DeviceKind.GRAPH).any() for trace in traces):
        yield "CUDA graphs were traced as a whole, which hides their kernels: nsys --cuda-graph-trace=node"
    tool = traces[0].tool
    yield from dict.fromkeys(chain.from_iterable(trace.notes for trace in traces))
    if different := _different(parts):
        yield f"{different}: are they of one run? All count as ranks of it"
    kernels = [window.collective for _, window in parts if window.collective]
    if kernels:
        yield f"no range marks a step: the ends of {collective_name(kernels[0]) or kernels[0]} separate them"
    if any(trace.calls is None or not len(trace.calls) for trace in traces):
        yield f"no calls of the host, so idle time has no cause: {CALLS[tool]}"
    if listed and len(traces) == 1:
        yield "one rank cannot tell transfer from waiting: trace the other ranks of the same steps"
    if listed and all(each.bytes is None for each in listed):
        yield f"no sizes of collectives: {SIZES[tool]}"


def _different(parts: Sequence[tuple[RankTrace, TraceWindow]]) -> str | None:
    """Say in what these traces differ as those of one run do not."""
    tools = set[str]()
    gpus = set[str]()
    begins = []
    ends = []
    for trace, window in parts:
        tools.add(trace.tool)
        gpus.add(trace.gpu or "a GPU without a name")
        if trace.clock is not None:
            begins.append(trace.clock + window.first)
            ends.append(trace.clock + window.last)
    for kinds in (tools, gpus):
        if len(kinds) > 1:
            return f"the traces are of {' and '.join(sorted(kinds))}"
    if not begins:
        return None
    apart = (max(begins) - min(ends)) / NS
    if apart > APART_S:
        return f"one trace begins {apart:.3g} s after another one ends"
    return None
