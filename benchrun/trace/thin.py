"""A small copy of a Kineto trace: what its fingerprint is computed from, and nothing else."""

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchrun.trace.json_stream import Event, JsonTrace
from benchrun.trace.kineto import SKIP, is_needed

EVENT = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
ARGUMENTS = (
    *("device", "stream", "correlation", "External id", "Input Dims", "Input type"),
    *("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size"),
    *("Process Group Name", "Process Group Description", "Process Group Ranks"),
)
DISTRIBUTED = ("rank", "world_size", "pg_config")


def thinned(path: Path, clean: Callable[[str], str]) -> bytes:
    """The events and keys of the trace at ``path`` that a fingerprint needs, as JSON packed by xz.

    ``clean`` replaces each text that the trace holds. UserError for a file that is no whole trace.
    """
    source, names = JsonTrace(path, SKIP), _Cleaned(clean)
    events = [_event(event, names) for batch in source.batches() for event in batch if _is_needed(event)]
    document = {**_properties(source.properties, names), "traceEvents": events}
    return lzma.compress(json.dumps(document, separators=(",", ":")).encode())


def _is_needed(event: Event) -> bool:
    """The end of an event has a name of its own in few traces: all begins and ends stay."""
    return event.get("ph") in ("B", "E") or is_needed(event.get("cat") or "", event.get("name") or "")


class _Cleaned(dict[str, str]):
    """Texts as ``clean`` makes them, each made once: a trace repeats few names many times."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean

    def __missing__(self, text: str) -> str:
        self[text] = self._clean(text)
        return self[text]


def _event(event: Event, names: _Cleaned) -> Event:
    args = event.get("args")
    needed = dict(_only(args, ARGUMENTS, names)) if isinstance(args, dict) else {}
    return {**dict(_only(event, EVENT, names)), **({"args": needed} if needed else {})}


def _properties(stated: dict[str, Any], names: _Cleaned) -> dict[str, Any]:
    """Rank, groups and GPUs."""
    listed, own = stated.get("deviceProperties"), stated.get("distributedInfo")
    gpus = [dict(_only(gpu, ("id", "name"), names)) for gpu in listed or [] if isinstance(gpu, dict)]
    ranks = dict(_only(own, DISTRIBUTED, names)) if isinstance(own, dict) else {}
    return {"schemaVersion": 1, "deviceProperties": gpus, "distributedInfo": ranks}


def _only(document: dict[str, Any], keys: tuple[str, ...], names: _Cleaned) -> Iterator[tuple[str, Any]]:
    for key in keys:
        if key in document:
            yield key, _cleaned(document[key], names)


def _cleaned(value: Any, names: _Cleaned) -> Any:
    if isinstance(value, str):
        return names[value]
    if isinstance(value, list):
        return [_cleaned(each, names) for each in value]
    if isinstance(value, dict):
        return {key: _cleaned(each, names) for key, each in value.items()}
    return value
