"""Exports of Nsight Systems to SQLite: times in ns.

A table exists only if it has rows, and its columns change by version.
"""

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.errors import UserError
from benchrun.logs.inputs import chunks

from .events import (
    BESIDE,
    PROCESS_BITS,
    TOUCHED,
    DeviceKind,
    EventColumns,
    Events,
    Numbers,
    RankTrace,
    events_of,
)

Table = NDArray[np.int64]
ROWS = 50_000
"""Rows that are fetched at once."""
MAGIC = b"SQLite format 3\x00"
ACTIVITY = "CUPTI_ACTIVITY_KIND_"
PEER_COPY, DEVICE_COPY = 10, 8
RANGES = (59, 60, 70, 71, 35, 37)
"""Types of NVTX events that have a start and an end (ENUM_NSYS_EVENT_TYPE of an
export).
"""
NAMELESS = "[unknown]"
PROCESS_SHIFT, PROCESS_NUMBER = 24, 0xFFFFFF
"""Place in a globalPid of the number that the operating system gives the process."""
WAITS = re.compile(
    r"^(p?read(v|64)?|fread|p?poll|p?select|epoll_p?wait|(clock_)?nanosleep|u?sleep|sem_\w*wait|recv\w*)$"
)
"""Calls in which a thread waits for data. Threads wait for each other and for the GPU
in pthread_cond_wait.
"""


class _Export:
    """An open export: a missing table is empty, a missing column is -1; a missing time
    is damage.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        names = connection.execute("select name from sqlite_master where type in ('table', 'view')")
        self._stored = {_spelt(name): name for (name,) in names}
        self.tables = {
            usual: {row[1] for row in connection.execute(f'pragma table_info("{name}")')}
            for usual, name in self._stored.items()
        }
        self.names = Numbers()
        texts = self.texts("select id, value from StringIds")
        self.strings = {number: text for number, text in texts if isinstance(text, str)}
        """The texts that other tables refer to; a value that is no text is no name."""

    def read(self, table: str, *columns: str, condition: str = "1") -> Table:
        """The columns as whole numbers; a list of names separated by spaces stands for
        the first that exists.
        """
        present = self.tables.get(table, set())
        if not present:
            return np.zeros((0, len(columns)), np.int64)
        if missing := {"start", "end"}.intersection(columns) - present:
            raise sqlite3.DatabaseError(
                f"table {table} has no column {' nor '.join(sorted(missing))}"
            )
        chosen = []
        for names in columns:
            chosen.append(next((f'"{name}"' for name in names.split() if name in present), "-1"))
        selected = ", ".join(f"coalesce({column}, -1)" for column in chosen)
        cursor = self._connection.execute(
            f'select {selected} from "{self._stored[table]}" where {condition}'
        )
        parts = [np.zeros((0, len(columns)), np.int64)]
        while rows := cursor.fetchmany(ROWS):
            parts.append(np.array(rows, np.int64))
        return np.concatenate(parts)

    def numbers(self, identifiers: Table) -> Table:
        """Numbers in ``names`` for identifiers of strings."""
        unique, inverse = np.unique(identifiers, return_inverse=True)
        numbers = [self.names[self.strings.get(int(value), NAMELESS)] for value in unique]
        return np.array(numbers, np.int64)[inverse]

    def texts(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of ``query``; none if its table is missing."""
        try:
            return list(self._connection.execute(query))
        except sqlite3.OperationalError:  # another version's column, too
            return []


def _spelt(name: str) -> str:
    """A table as Nsight spells it: tools that copy exports write small letters, CUPTI
    calls all kernels concurrent.
    """
    usual = name.upper().replace("_CONCURRENT_KERNEL", "_KERNEL")
    if usual.startswith(ACTIVITY):
        return usual
    return name


def read_nsight(path: Path) -> Iterator[RankTrace]:
    """One trace for each GPU of each process, in the order of devices and processes;
    none without device events.
    """
    with _opened(path) as export:
        device_table = _device_table(export)
        calls, processes_of_calls = _calls(export)
        ranges, processes_of_ranges = _ranges(export)
        waits, processes_of_waits = _waits(export)
        kernels = device_table[device_table[:, -2] == int(DeviceKind.KERNEL)]
        if 2 * np.count_nonzero(kernels[:, 4] == export.names.get(NAMELESS, -1)) > len(kernels):
            raise sqlite3.DatabaseError("most kernels have no name in table StringIds")
        host = next((str(row[0]) for row in export.texts(_HOST)), None)
        clock = next((int(row[0]) for row in export.texts(_CLOCK)), None)
        gpus = {}
        for query in _GPUS:
            for device, name in export.texts(query):
                gpus[device] = str(name)
    # Without the call of each kernel the cause of idle time is unknown.
    linked = not len(kernels) or bool((kernels[:, 6] >= 0).any())
    users, beside = _users(device_table)
    for device, process in users:
        mine = device_table[(device_table[:, 0] == device) & (device_table[:, 1] == process)]
        yield RankTrace(
            file=str(path),
            rank=None,
            tool="nsys",
            device=device,
            names=[*export.names],
            device_events=events_of(mine[:, 2:]),
            calls=calls.where(_of_process(processes_of_calls, process))
            if len(calls) and linked
            else None,
            ranges=ranges.where(_of_process(processes_of_ranges, process)),
            waits=waits.where(_of_process(processes_of_waits, process)),
            host=host,
            gpu=gpus.get(device),
            clock=clock,
            notes=beside,
        )


def _users(device_table: Table) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Each GPU with each process that is a rank on it, sorted; and a note for each
    other process with work on it.

    A process that did not choose its GPU makes a context and a few fills on the first
    one, which is that of another.
    """
    pairs, counts = np.unique(device_table[:, :2], axis=0, return_counts=True)
    devices, processes = pairs.T
    users = []
    notes = []
    for (device, process), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        busiest = int(counts[devices == device].max())
        if count < busiest and count <= TOUCHED * counts[processes == process].max():
            continue
        if count >= BESIDE * busiest:
            users.append((device, process))
        else:
            number = process >> PROCESS_SHIFT & PROCESS_NUMBER
            few = f"{count} of its events ran on GPU {device}, where the busiest process has {busiest}"
            notes.append(f"process {number} is left out as no rank: {few}")
    return users, tuple(notes)


def _of_process(processes: Table, process: int) -> NDArray[np.bool_]:
    """Mask of the host's events that are those of ``process``; all if the export does
    not state it.
    """
    if process < 0:
        return np.full(len(processes), fill_value=True)
    return np.equal(processes, process)


_HOST = "select value from TARGET_INFO_SYSTEM_ENV where name = 'Hostname'"
_CLOCK = "select utcEpochNs from TARGET_INFO_SESSION_START_TIME where utcEpochNs is not null"
_GPUS = (
    # Several versions exist; the statement of the last one counts.
    "select id, name from TARGET_INFO_CUDA_GPU",
    "select id, name from TARGET_INFO_GPU",
    "select coalesce(cuDevice, id), name from TARGET_INFO_GPU where name is not null",
)


def _device_table(export: _Export) -> Table:
    """Rows of device, process, and the columns of `EventColumns`, of all kinds of device
    events.
    """
    place = ("deviceId", "globalPid", "start", "end")
    texts = ("demangledName", "shortName", "mangledName")
    kernels = export.read(
        f"{ACTIVITY}KERNEL", *place, texts[0], "streamId", "correlationId", *texts[1:]
    )
    copies = export.read(
        f"{ACTIVITY}MEMCPY",
        *place,
        "copyKind",
        "streamId",
        "correlationId",
        "srcDeviceId",
        "dstDeviceId",
    )
    sets = export.read(f"{ACTIVITY}MEMSET", *place, "value", "streamId", "correlationId")
    graphs = export.read(f"{ACTIVITY}GRAPH_TRACE", *place, "graphId", "streamId", "correlationId")
    between = (copies[:, 7] != copies[:, 8]) & (copies[:, 7:9] >= 0).all(axis=1)
    peers = (copies[:, 4] == PEER_COPY) | ((copies[:, 4] == DEVICE_COPY) & between)
    if 2 * np.count_nonzero(kernels[:, 3] < kernels[:, 2]) > len(kernels):
        raise sqlite3.DatabaseError("most kernels end before they start")
    kernels[:, 4] = export.numbers(_names_of(kernels[:, [4, 7, 8]], export.strings))
    for table, text in (
        (copies, "Memcpy"),
        (sets, "Memset"),
        (graphs, "CUDA graph, traced as a whole"),
    ):
        table[:, 4] = export.names[text]
    kinds = (
        (kernels, DeviceKind.KERNEL),
        (copies[~peers], DeviceKind.COPY),
        (copies[peers], DeviceKind.PEER_COPY),
        (sets, DeviceKind.SET),
    )
    return _placed(
        np.concatenate(
            [_with_kind(table[:, :7], kind) for table, kind in (*kinds, (graphs, DeviceKind.GRAPH))]
        )
    )


def _names_of(identifiers: Table, strings: dict[int, str]) -> NDArray[np.int64]:
    """First identifier in each row that is one of a string."""
    named = np.isin(identifiers, list(strings))
    chosen: NDArray[np.int64] = identifiers[np.arange(len(named)), named.argmax(axis=1)]
    return chosen


def _placed(table: Table) -> Table:
    """The table with device and process in each row, if some kinds of events lack what
    the others state.
    """
    for column, name in enumerate(("deviceId", "globalPid")):
        unknown = table[:, column] < 0
        stated = np.unique(table[~unknown, column])
        if unknown.any() and len(stated) > 1:
            raise sqlite3.DatabaseError(
                f"some events of GPUs have no {name}, the others have {len(stated)}"
            )
        if len(stated):
            table[unknown, column] = stated[0]
    return table


def _with_kind(table: Table, kind: DeviceKind) -> Table:
    """The table with the columns kind and operator."""
    return np.column_stack([table, np.full(len(table), kind), np.full(len(table), -1)]).astype(
        np.int64
    )


def _calls(export: _Export) -> tuple[Events, Table]:
    """CUDA calls and the process of each."""
    columns = ("start", "end", "nameId", "globalTid", "correlationId")
    table = np.concatenate(
        [export.read(f"{ACTIVITY}{interface}", *columns) for interface in ("RUNTIME", "DRIVER")]
    )
    table[:, 2] = export.numbers(table[:, 2])
    return _host_events(table)


def _waits(export: _Export) -> tuple[Events, Table]:
    """Waits in the operating system and the process of each."""
    chosen = ",".join(str(number) for number, text in export.strings.items() if WAITS.match(text))
    condition = f"nameId in ({chosen})"
    table = export.read("OSRT_API", "start", "end", "nameId", "globalTid", condition=condition)
    table[:, 2] = export.numbers(table[:, 2])
    return _host_events(table)


def _ranges(export: _Export) -> tuple[Events, Table]:
    """NVTX ranges and the process of each."""
    columns = EventColumns()
    present = export.tables.get("NVTX_EVENTS", set())
    text, text_id = (name if name in present else "null" for name in ("text", "textId"))
    if {"start", "end", "globalTid"} <= present and {"text", "textId"} & present:
        kinds = ""
        if "eventType" in present:
            kinds = f"and eventType in {RANGES}"
        query = f'select start, "end", {text}, {text_id}, globalTid from NVTX_EVENTS where "end" is not null {kinds}'
        for start, end, own, identifier, thread in export.texts(query):
            name = export.strings.get(identifier, "") if own is None else str(own)
            columns.add(start, end, export.names[name], thread)
    events = columns.events()
    return events, events.place & PROCESS_BITS


def _host_events(table: Table) -> tuple[Events, Table]:
    """Events of a table with the columns start, end, name, thread and perhaps a link."""
    missing = np.full((len(table), EventColumns.WIDTH - table.shape[1]), -1, np.int64)
    events = events_of(np.column_stack([table, missing]))
    return events, events.place & PROCESS_BITS


@contextmanager
def _opened(path: Path) -> Iterator[_Export]:
    """The export, unpacked if it is compressed. UserError for a damaged one."""
    with path.open("rb") as file:
        packed = file.read(len(MAGIC)) != MAGIC
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as unpacked:
        if packed:
            for chunk in chunks(path):
                unpacked.write(chunk)
            unpacked.flush()
        target = Path(unpacked.name) if packed else path.resolve()
        try:
            with closing(
                sqlite3.connect(f"{target.as_uri()}?mode=ro&immutable=1", uri=True)
            ) as connection:
                yield _Export(connection)
        except (sqlite3.DatabaseError, ValueError, OverflowError) as error:
            hint = "export it again: nsys export --type sqlite REPORT.nsys-rep"
            raise UserError(
                f"is a damaged Nsight Systems export: {error}", where=str(path), hint=hint
            ) from None
