"""Dumps of PyTorch's Flight Recorder: one file a rank, a pickle or JSON."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .pickles import plain

OF_A_RANK = re.compile(r"(\d+)(?:\.(?:pickle|pkl|json|bin))?$")
"""End of the name of a rank's file."""
PEERS = re.compile(r"(send|recv) (\d+)(->|<-)(\d+)")
GROUPS = {
    **{"DATA_PARALLEL": "dp", "TENSOR_MODEL_PARALLEL": "tp", "PIPELINE_MODEL_PARALLEL": "pp"},
    **{
        "CONTEXT_PARALLEL": "cp",
        "EXPERT_MODEL_PARALLEL": "ep",
        "DATA_PARALLEL_GROUP_WITH_CP": "dp",
    },
    "default_pg": "default",
}
"""Description of a group -> its short name."""


@dataclass(frozen=True)
class Op:
    """A collective, or one side of a transfer, that a rank has called."""

    group: str
    sequence: int
    name: str
    """E.g. ``all_reduce``."""
    pending: bool
    started: bool
    """Whether its kernel was seen to start, which NCCL tells with TORCH_NCCL_ENABLE_TIMING."""
    created_ns: int
    shape: str
    """Sizes and types that all ranks must agree on."""
    peer: int | None = None
    """The other rank of a transfer."""
    limit_s: float = math.inf
    """Time after which the watchdog ends it."""

    @property
    def call(self) -> tuple[str, str, str]:
        """Group, name and shape of the call, whatever its number."""
        return self.group, self.name, self.shape


@dataclass(frozen=True)
class Dump:
    """The recorder of one rank."""

    rank: int
    ops: list[Op]
    """In the order in which the rank called them."""
    last: dict[str, tuple[int, int]]
    """Group -> number of the last collective called, and of the last one that ended."""
    whole: bool
    """Whether nothing was overwritten or left out: a group that is not in ``last`` was not used."""

    def beside(self, op: Op) -> list[Op]:
        """The transfers that end together with ``op``."""
        same = [own for own in self.ops if own.peer is not None and own.pending]
        return [own for own in same if (own.group, own.sequence) == (op.group, op.sequence)]

    @property
    def head(self) -> Op | None:
        """The first call that has not ended."""
        return next((op for op in self.ops if op.pending), None)

    def called(self, op: Op) -> bool | None:
        """Whether this rank called the collective ``op`` too; None: not known."""
        return self._reached(op, 0)

    def ended(self, op: Op) -> bool:
        """Whether the collective ``op`` has ended on this rank."""
        return bool(self._reached(op, 1))

    def same(self, op: Op) -> Op | None:
        """This rank's own call of the number of ``op``."""
        for own in self.ops:
            if (own.group, own.sequence, own.peer) == (op.group, op.sequence, None):
                return own
        return None

    def _reached(self, op: Op, which: int) -> bool | None:
        if op.group in self.last:
            return self.last[op.group][which] >= op.sequence
        return False if self.whole else None


@dataclass
class Records:
    """Contents of the dumps of a job."""

    dumps: dict[int, Dump] = field(default_factory=dict)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Ranks of each group."""
    titles: dict[str, str] = field(default_factory=dict)
    """Short name of each group."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Description of each group: two of the same short name differ in it."""
    damaged: set[int] = field(default_factory=set)
    """Ranks whose file cannot be read."""
    written_s: float = 0.0
    """Time of the last dump, in s since 1970."""


def read(files: Iterable[Path]) -> Records:
    """The dumps among ``files``; others are left out. UserError for one that would run code."""
    records = Records()
    documents = {}
    for path in files:
        match = OF_A_RANK.search(path.name)
        if match is None:
            continue
        data = path.read_bytes()
        document = _document(data, path)
        if isinstance(document, dict) and isinstance(document.get("entries"), list):
            documents[int(match[1])] = document
            records.written_s = max(records.written_s, path.stat().st_mtime)
        elif data.startswith(b"\x80"):
            records.damaged.add(int(match[1]))
    records.damaged -= documents.keys()
    for document in documents.values():
        for name, ranks, kind in _groups(document):
            records.groups[name] = ranks
            records.kinds[name] = kind
            records.titles[name] = GROUPS.get(kind, GROUPS.get(kind.removesuffix("_GROUP"), kind))
    for rank, document in sorted(documents.items()):
        try:
            records.dumps[rank] = _dump(rank, document, records.groups)
        except (KeyError, TypeError, ValueError, AttributeError):
            records.damaged.add(rank)
    return records


def _document(data: bytes, path: Path) -> Any:
    if not data.startswith(b"{"):
        return plain(data, path)
    try:
        return json.loads(data)
    except ValueError:
        return None


def _groups(document: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Name, ranks and description of each group that a dump describes."""
    config = document.get("pg_config")
    for each in config.values() if isinstance(config, dict) else ():
        if not (isinstance(each, dict) and each.get("name")):
            continue
        found = re.findall(r"\d+", str(each.get("ranks")))
        if found:
            kind = str(each.get("desc", ""))
            if kind in ("", "undefined"):
                kind = str(each["name"])
            yield str(each["name"]), tuple(map(int, found)), kind


def _dump(rank: int, document: dict[str, Any], groups: dict[str, tuple[int, ...]]) -> Dump:
    entries = sorted(document["entries"], key=lambda entry: int(entry["record_id"]))
    coalesced = {_number(entry): entry for entry in entries if _name(entry) == "coalesced"}
    ops = []
    for entry in entries:
        # The parts of a coalesced call have no state of their own.
        whole = coalesced.get(_number(entry), entry)
        if _name(entry) != "coalesced":
            ops.append(_op(entry, _pending(whole), groups))
    last = _status(document, entries)
    for op in ops:
        called, ended = last.get(op.group, (0, 0))
        if op.peer is None:
            ended = ended if op.pending else max(ended, op.sequence)
            last[op.group] = max(called, op.sequence), ended
    # The recorder numbers its entries from 0; without any, a rank has called nothing or only
    # what has ended.
    whole = entries[0]["record_id"] == 0 if entries else not document.get("pg_status")
    return Dump(rank, ops, last, whole)


def _number(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["pg_id"], entry["collective_seq_id"], entry["p2p_seq_id"]


def _name(entry: dict[str, Any]) -> str:
    return str(entry["profiling_name"].rpartition(":")[2])


def _pending(entry: dict[str, Any]) -> bool:
    # gloo sets no states: what it has done is retired. NCCL retires what timed out, too.
    done = entry["profiling_name"].startswith("gloo:") and bool(entry.get("retired"))
    return entry["state"] != "completed" and not done


def _op(entry: dict[str, Any], pending: bool, groups: dict[str, tuple[int, ...]]) -> Op:
    group = str(entry["process_group"][0])
    name = _name(entry)
    peer = None
    if match := PEERS.search(name):
        place = int(match[4])
        members = groups.get(group, ())
        peer = members[place] if place < len(members) else place
        name = match[1]
    name = name.strip("_").removesuffix("_base")
    sizes = entry.get("output_sizes") if "reduce_scatter" in name else entry.get("input_sizes")
    shape = f"{sizes} {entry.get('input_dtypes')}"
    if name.startswith("all_to_all") or name in ("gather", "scatter"):
        shape = ""  # its sizes differ between ranks
    sequence = entry["collective_seq_id"] if peer is None else entry["p2p_seq_id"]
    started, created_ns = entry["state"] == "started", int(entry["time_created_ns"])
    limit_s = (entry.get("timeout_ms") or math.inf) / 1000
    return Op(group, int(sequence), name, pending, started, created_ns, shape, peer, limit_s)


def _status(document: dict[str, Any], entries: list[Any]) -> dict[str, tuple[int, int]]:
    """The last numbers by group where no entry is left: NCCL numbers groups as they were made."""
    ids = sorted(document.get("pg_status", {}), key=int)
    names = [name for name in document.get("pg_config", {}) if name.isdecimal()]
    numbers = dict(zip(ids, sorted(names, key=int), strict=False))
    of_entries = {str(entry["pg_id"]): str(entry["process_group"][0]) for entry in entries}
    agree = all(numbers.get(own) == name for own, name in of_entries.items())
    if len(ids) != len(names) or not agree or any("gloo" in e["profiling_name"] for e in entries):
        return {}
    transfers = {str(entry["pg_id"]) for entry in entries if entry.get("is_p2p")}
    last = {}
    for own, status in document["pg_status"].items():
        if own not in transfers:
            called, ended = status["last_enqueued_collective"], status["last_completed_collective"]
            last[numbers[own]] = int(called), int(ended)
    return last
