"""Events of a trace, as arrays: device events, calls of CUDA on the host, ranges and
waits of host threads.
"""

from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Intervals

PROCESS_BITS = ~0xFFFFFF
"""The part of a host event's place that is its process, as in a globalTid of Nsight
Systems; the rest is the thread.
"""
TOUCHED = 0.01
"""Share of the events of a rank's own device: another one with no more of them is not
its own.
"""
BESIDE = 0.02
"""Share of the events of a GPU's busiest process: another one with fewer of them
compiles or tunes, and is no rank.
"""


class DeviceKind(IntEnum):
    """Kinds of device events."""

    KERNEL = 0
    COPY = 1
    PEER_COPY = 2
    """Copy from one GPU to another: communication."""
    SET = 3
    GRAPH = 4
    """A CUDA graph traced as a whole, which hides its kernels."""


class Numbers(dict[Any, int]):
    """Values, each stored once and numbered in the order of appearance:
    ``numbers[value]``.
    """

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number


@dataclass(frozen=True)
class Events:
    """Events in the order of their start."""

    times: Intervals
    """Times of begin and end, in ns."""
    name: NDArray[np.int64]
    """Numbers in the trace's ``names``."""
    place: NDArray[np.int64]
    """Stream of a device event, process and thread of a host event."""
    link: NDArray[np.int64]
    """Correlation of a call with what it starts on the device; -1 if there is none."""
    kind: NDArray[np.int64]
    """Kind of a device event; 0 for host events."""
    external: NDArray[np.int64]
    """Number of the operator of the framework that started it; -1 if unknown."""

    def __len__(self) -> int:
        return len(self.name)

    def where(self, chosen: NDArray[Any]) -> "Events":
        """The events that ``chosen`` marks."""
        columns = (self.name, self.place, self.link, self.kind, self.external)
        times = Intervals(self.times.start[chosen], self.times.end[chosen])
        return Events(times, *(column[chosen] for column in columns))


class EventColumns:
    """Collects events one by one, 8 bytes a value."""

    WIDTH = 7

    def __init__(self) -> None:
        self._values = array("q")

    def add(
        self,
        start: int,
        end: int,
        name: int,
        place: int,
        link: int = -1,
        kind: int = 0,
        external: int = -1,
    ) -> None:
        """Add an event; times in ns."""
        self._values.extend((start, end, name, place, link, kind, external))

    def __len__(self) -> int:
        return len(self._values) // self.WIDTH

    def events(self) -> Events:
        """The events, sorted by start."""
        return events_of(np.frombuffer(self._values, np.int64).reshape(-1, self.WIDTH))


def events_of(table: NDArray[np.int64]) -> Events:
    """Events of a table with the columns start, end, name, place, link, kind, external;
    repeated rows count once.
    """
    table = _distinct(table)
    order = np.argsort(table[:, 0], kind="stable")
    start, end, *others = (table[order, column] for column in range(EventColumns.WIDTH))
    return Events(Intervals(start, np.maximum(start, end)), *others)


def _distinct(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows without copies, in their order: exports that were joined hold an event
    twice.
    """
    order = np.lexsort((table[:, 3], table[:, 1], table[:, 0]))
    times = table[order, :2]
    # Few, so that little memory is needed.
    near = np.flatnonzero((times[1:] == times[:-1]).all(axis=1))
    copies = order[near + 1][(table[order[near + 1]] == table[order[near]]).all(axis=1)]
    if not len(copies):
        return table
    return np.delete(table, copies, axis=0)


class Message(NamedTuple):
    """Facts that a trace states about one collective."""

    name: str
    """all_reduce, all_gather, reduce_scatter, all_to_all, send, ..."""
    group: str | None
    """Name of its process group."""
    ranks: tuple[int, ...] | None
    group_size: int | None
    bytes: int | None
    """The whole tensor, as nccl-tests counts."""


class Group(NamedTuple):
    """A process group."""

    name: str
    description: str
    ranks: tuple[int, ...]


class Shape(NamedTuple):
    """A matrix product: batch times (m x k) times (k x n)."""

    operator: str
    dtype: str
    batch: int
    m: int
    n: int
    k: int


Tool = Literal["kineto", "nsys"]
"""Tool that recorded a trace."""


@dataclass(frozen=True)
class RankTrace:
    """One GPU as one process used it."""

    file: str
    rank: int | None
    """Rank; None if the trace does not state it."""
    device: int
    names: list[str]
    device_events: Events
    calls: Events | None
    """CUDA calls of the host; None if the trace has no host events."""
    ranges: Events
    """Ranges of host threads: annotations, NVTX, and functions of data loaders."""
    waits: Events
    """Waits of host threads in the operating system: sleep, read, poll."""
    tool: Tool = "kineto"
    host: str | None = None
    gpu: str | None = None
    """Name of the GPU as the driver states it."""
    clock: int | None = None
    """Zero of its times, in ns since 1970; None if the trace does not state it."""
    groups: tuple[Group, ...] = ()
    messages: dict[int, Message] = field(default_factory=dict)
    """Messages by the link of the device event."""
    shapes: dict[int, Shape] = field(default_factory=dict)
    """Shapes by the operator's number (``external``)."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out of its file."""

    def texts(self, events: Events) -> list[str]:
        """The name of each event."""
        return [self.names[number] for number in events.name]
