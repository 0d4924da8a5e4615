"""Kineto traces, as torch.profiler writes them: JSON with times in us."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchrun.errors import UserError

from .damage import damage_of
from .events import (
    PROCESS_BITS,
    TOUCHED,
    DeviceKind,
    EventColumns,
    Events,
    Message,
    Numbers,
    RankTrace,
    Shape,
)
from .json_stream import Event, JsonTrace
from .loader import LOADER, PLAIN
from .messages import PRODUCTS, groups_of, message_of, shape_of, whole
from .properties import gpu_names

NS_PER_US = 1000
WRITE_AGAIN = "export the trace again, or profile again with torch.profiler"
LARGE = 1e12
"""Microseconds from which on the product with NS_PER_US is rounded."""
DEVICE = (
    (re.compile(r"(?:\w+_)?kernel"), DeviceKind.KERNEL),
    (re.compile(r"(?:\w+_)?memcpy"), DeviceKind.COPY),
    (re.compile(r"(?:\w+_)?memset"), DeviceKind.SET),
)
"""Categories of a GPU's events in small letters: kernel, gpu_memcpy; until PyTorch 1.11
Kernel, Memcpy.
"""
OPERATORS = frozenset({"cpu_op", "python_function", "operator"})
COMMUNICATION = "record_param_comms"
"""The operator that describes a collective, until kernels did it themselves."""
CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime"})
QUERY = re.compile(
    r"query|record|captur|attribute|occupancy|error|waitevent|getfunc|[gs]etdevice", re.I
)
"""Calls that neither start work on a GPU nor wait for it: most of all calls."""
SKIP = re.compile(
    rb'[sfi]"|X",\s*"cat":\s*"(?:(?:ac2g|gpu_user_annotation|overhead|Trace)"|'
    rb'python_function",\s*"name":\s*"(?![^"]*(?i:' + PLAIN.encode() + rb"))|"
    rb'cpu_op",\s*"name":\s*"(?:aten::(?!(?:mm|addmm|bmm|baddbmm)")|autograd::)|'
    rb'cuda_runtime",\s*"name":\s*"\w*(?:Query|Record|Captur|Attribute|Occupancy|Error|WaitEvent|GetFunc))'
)
"""Begin of events that no fingerprint needs, from their phase on, as Kineto lays them
out: most of a file.

Only speed depends on it: an event that it does not match is parsed and then left out.
"""
BASE = "baseTimeNanoseconds"
"""Key of the time from which all others are counted; without it they are counted from
1970.
"""
PEER = re.compile(r"PtoP|peer", re.I)


Way = tuple[Any, ...]
"""A method of `_Reader` and what it needs beside the event."""


class _Reader:
    """Collects the events of one file, by device."""

    def __init__(self) -> None:
        self.names = Numbers()
        self.processes, self.threads = Numbers(), Numbers()
        self.devices: dict[int, EventColumns] = {}
        self.calls, self.ranges = EventColumns(), EventColumns()
        self.messages: dict[int, Message] = {}
        self.operator_messages: dict[int, Message] = {}
        self.shapes: dict[int, Shape] = {}
        self.host_events = False
        self.seen = self.incomplete = 0
        """Events of GPUs, and those of them that lack a name or a length."""
        self._ways: dict[tuple[str, str], Way | None] = {}
        """Ways to read the events of a category and name: each pair is judged once.

        None: they are left out.
        """
        self._processes: dict[tuple[int, int], Any] = {}
        """The process under which the kernels of each GPU and stream stand."""
        self._open: dict[Any, list[Event]] = {}
        """Begun events of each thread that have not ended, the innermost last."""

    def add(self, events: list[Event]) -> None:
        """Keep what the fingerprint needs."""
        ways = self._ways
        event = Event()
        try:
            for event in events:
                phase = event.get("ph")
                if phase == "B":
                    self._open.setdefault((event.get("pid"), event.get("tid")), []).append(event)
                    continue
                if phase == "E" and (whole := self._ended(event)) is not None:
                    event = whole
                key = event.get("cat") or "", event.get("name") or ""
                if key not in ways:
                    ways[key] = self._way(*key)
                if (way := ways[key]) is not None:
                    way[0](self, event, *way[1:])
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise UserError(
                f"holds a damaged event: {damage_of(event) or error}", hint=WRITE_AGAIN
            ) from None

    def _way(self, category: str, name: str) -> Way | None:
        """Way to read the events of this category and name."""
        category = plain_category(category)
        self.host_events |= category in CALLS
        if not is_needed(category, name):
            return None
        if not isinstance(name, str):
            raise TypeError("a name is no text")
        if (kind := kind_of(category)) is not None:
            if kind is DeviceKind.COPY and PEER.search(name):
                kind = DeviceKind.PEER_COPY
            return _Reader._add_device_event, self.names[name], int(kind)
        if category in CALLS:
            return _Reader._add_call, self.names[name]
        if category == "user_annotation" or LOADER.search(name):
            return _Reader._add_range, self.names[name]
        return _Reader._add_operator, name

    def _add_call(self, event: Event, number: int) -> None:
        args = event.get("args") or {}
        self.calls.add(*_times(event), number, self._thread(event), whole(args.get("correlation")))

    def _add_range(self, event: Event, number: int) -> None:
        self.ranges.add(*_times(event), number, self._thread(event))

    def _ended(self, event: Event) -> Event | None:
        """The event that ``event`` ends, as one with a length; None if none of its
        thread has begun.
        """
        begun = self._open.get((event.get("pid"), event.get("tid")), [])
        name = event.get("name")
        places = reversed(range(len(begun)))
        place = next(
            (place for place in places if not name or begun[place].get("name") == name), None
        )
        if place is None:
            return None
        first = begun.pop(place)
        if float(event["ts"]) < float(first["ts"]):
            raise ValueError("the end of an event stands before its begin")
        args = {**(first.get("args") or {}), **(event.get("args") or {})}
        return {**first, "ph": "X", "dur": float(event["ts"]) - float(first["ts"]), "args": args}

    def _add_device_event(self, event: Event, number: int, kind: int) -> None:
        if event.get("ph") != "X":
            return
        self.seen += 1
        self.incomplete += event.get("dur") is None or not event.get("name")
        if event.get("dur") is None:
            return
        args = event.get("args") or {}
        if (
            kind == DeviceKind.COPY
            and "DtoD" in (event.get("name") or "")
            and _is_between_gpus(args)
        ):
            kind = DeviceKind.PEER_COPY
        device = _device(args.get("device"), event.get("pid"))
        if (columns := self.devices.get(device)) is None:
            columns = self.devices[device] = EventColumns()
        stream = whole(args.get("stream", event.get("tid")))
        link = whole(args.get("correlation"))
        if "Collective name" in args and (message := message_of(args)):
            if link < 0:  # a number of its own: other kernels without a link have other messages
                link = -2 - len(self.messages)
            self.messages[link] = message
        columns.add(*_times(event), number, stream, link, kind, whole(args.get("External id")))
        process = event.get("pid")
        if (
            kind == DeviceKind.KERNEL
            and self._processes.setdefault((device, stream), process) != process
        ):
            raise UserError(
                f"kernels of several processes on GPU {device}", hint="give one file for each rank"
            )

    def _add_operator(self, event: Event, name: str) -> None:
        """The shape of a matrix product or the message of a collective."""
        args = event.get("args") or {}
        operator = whole(args.get("External id"))
        if operator < 0:
            return
        if "Collective name" in args and (message := message_of(args)):
            self.operator_messages[operator] = message
        elif name in PRODUCTS and (shape := shape_of(name, args)):
            self.shapes[operator] = shape

    def without_end(self) -> int:
        """Number of events of GPUs that have begun and not ended."""
        categories = (
            plain_category(event.get("cat") or "")
            for begun in self._open.values()
            for event in begun
        )
        return sum(kind_of(category) is not None for category in categories)

    def several_ranks(self, calls: Events) -> bool:
        """True if processes use the same numbers for their calls: files of several
        ranks were joined.
        """
        if len(self.processes) < 2:
            return False
        linked = calls.where(calls.link >= 0)
        used = np.unique(np.column_stack([linked.place & PROCESS_BITS, linked.link]), axis=0)
        return len(np.unique(used[:, 1])) < len(used)

    def messages_of(self, events: Events) -> dict[int, Message]:
        """The message of each device event by its link: its own, else that of the
        operator that started it.
        """
        links = zip(events.link.tolist(), events.external.tolist(), strict=True)
        started = {}
        for link, operator in links:
            if operator in self.operator_messages:
                started[link] = self.operator_messages[operator]
        return {**started, **self.messages}

    def _thread(self, event: Event) -> int:
        pid = event.get("pid")
        return self.processes[pid] * -PROCESS_BITS + self.threads[pid, event.get("tid")]


def read_kineto(path: Path) -> Iterator[RankTrace]:
    """One trace for each GPU in the file; none if it holds no device event."""
    source = JsonTrace(path, SKIP)
    reader = _Reader()
    for events in source.batches():
        try:
            reader.add(events)
        except UserError as error:
            raise UserError(error.message, where=str(path), hint=error.hint) from None
    without_end = reader.without_end()
    incomplete = reader.incomplete + without_end
    seen = reader.seen + without_end
    if 2 * incomplete > seen:
        raise UserError(
            f"{incomplete} of {seen} events of GPUs have no name or no length", where=str(path)
        )
    stated = source.properties.get("distributedInfo")
    listed = source.properties.get("deviceProperties")
    stated = stated if isinstance(stated, dict) else {}
    gpus = gpu_names(listed, str(path))
    rank = whole(stated.get("rank"))
    own = _own_devices(reader.devices, alone=rank >= 0)
    calls = None
    if reader.host_events:
        calls = reader.calls.events()
    if calls is not None and reader.several_ranks(calls):
        calls, reader.messages, reader.operator_messages, reader.shapes = None, {}, {}, {}
    ranges = reader.ranges.events()
    for device, columns in sorted(own.items()):
        device_events = columns.events()
        yield RankTrace(
            file=str(path),
            rank=rank if rank >= 0 and len(own) == 1 else None,
            device=device,
            names=[*reader.names],
            device_events=device_events,
            calls=calls,
            ranges=ranges,
            waits=EventColumns().events(),
            gpu=gpus.get(device),
            clock=max(whole(source.properties.get(BASE)), 0),
            groups=tuple(groups_of(stated.get("pg_config"))),
            messages=reader.messages_of(device_events),
            shapes=reader.shapes,
        )


def _own_devices(devices: dict[int, EventColumns], *, alone: bool) -> dict[int, EventColumns]:
    """The devices of a file; if it is ``alone`` of one rank, without those that this
    rank hardly touched.

    A process that did not choose its device makes a context and a few fills on the
    first one.
    """
    most = max(map(len, devices.values()), default=0)
    found = {}
    for device, each in devices.items():
        if not alone or len(each) > TOUCHED * most:
            found[device] = each
    return found


def is_needed(category: str, name: str) -> bool:
    """True if a fingerprint needs the events of this category and name."""
    category = plain_category(category)
    if category in CALLS:
        return not QUERY.search(name)
    if category in OPERATORS:
        return name in PRODUCTS or name == COMMUNICATION or LOADER.search(name) is not None
    return kind_of(category) is not None or category == "user_annotation"


def plain_category(category: str) -> str:
    """The first of the categories that are listed, in small letters with underscores:
    exporters differ in these.
    """
    return re.sub(r"[\s-]+", "_", category.split(",", 1)[0].strip().lower())


def kind_of(category: str) -> DeviceKind | None:
    """Kind of work of the GPU in events of this category, by `plain_category`; None for events
    of other devices.
    """
    return next((kind for pattern, kind in DEVICE if pattern.fullmatch(category)), None)


def _times(event: Event) -> tuple[int, int]:
    """Start and end in ns. Some exporters write times as text."""
    start = event["ts"]
    length = event.get("dur") or 0
    if type(start) is bool or type(length) is bool:
        raise TypeError("a time is no number")
    if type(start) is str or type(length) is str:
        start = float(start)
        length = float(length)
    if start < LARGE:
        first = round(start * NS_PER_US)
    else:  # a time since 1970 in ns has more digits than a floating-point number
        full = int(start)
        first = full * NS_PER_US + round((start - full) * NS_PER_US)
    return first, first + round(length * NS_PER_US)


def _device(stated: Any, process: Any) -> int:
    """Number of a GPU: as stated, else that of the process that stands for it, which
    may be a text like "GPU 1".
    """
    number = whole(process if stated is None else stated)
    digits = None
    if number < 0 and isinstance(process, str):
        digits = re.search(r"\d+", process)
    if not digits:
        return number
    return int(digits[0])


def _is_between_gpus(args: dict[str, Any]) -> bool:
    """True for the arguments of a copy that starts on one GPU and ends on another."""
    source = whole(args.get("fromDevice"))
    target = whole(args.get("toDevice"))
    return source >= 0 and target >= 0 and source != target
