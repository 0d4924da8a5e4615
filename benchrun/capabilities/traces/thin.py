"""A small copy of a Kineto trace for publication: what its fingerprint is computed
from, and nothing else.
"""

import json
import lzma
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from benchrun.errors import UserError

from .damage import damage_of
from .json_stream import Event, JsonTrace
from .kineto import BASE, CALLS, SKIP, is_needed, kind_of, plain_category
from .public import PublicNames

EVENT = ("ph", "cat", "pid", "tid", "ts", "dur")
ARGUMENTS = (
    "device",
    "stream",
    "correlation",
    "External id",
    "Input Dims",
    "Input type",
    "fromDevice",
    "toDevice",
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
)
DISTRIBUTED = ("rank", "world_size", "pg_config")


def thinned_trace(path: Path, clean: Callable[[str], str], public: PublicNames) -> bytes:
    """The events and keys of the trace at ``path`` that a fingerprint needs, as JSON
    packed by xz.

    ``clean`` replaces each text that the trace holds, then ``public`` each name.
    UserError for a file that is no whole trace.
    """
    source = JsonTrace(path, SKIP)
    texts = _Cleaned(clean)
    events = []
    for event in chain.from_iterable(source.batches()):
        if _is_needed(event, path):
            events.append(_event(event, texts, public))
    document = {**_properties(source.properties, texts), "traceEvents": events}
    return lzma.compress(json.dumps(document, separators=(",", ":")).encode())


def _is_needed(event: Event, path: Path) -> bool:
    """Whether a fingerprint needs it. UserError for a damaged one.

    The end of an event has a name of its own in few traces: all begins and ends stay.
    """
    category = event.get("cat") or ""
    name = event.get("name") or ""
    texts = isinstance(category, str) and isinstance(name, str)
    needed = not texts or event.get("ph") in ("B", "E") or is_needed(category, name)
    if needed and (damage := damage_of(event)):
        raise UserError(f"holds a damaged event: {damage}", where=str(path))
    return needed


class _Cleaned(dict[str, str]):
    """Texts as ``clean`` makes them, each made once: a trace repeats few names many
    times.
    """

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean

    def __missing__(self, text: str) -> str:
        self[text] = self._clean(text)
        return self[text]


def _event(event: Event, texts: _Cleaned, public: PublicNames) -> Event:
    thin = dict(_only(event, EVENT, texts))
    args = event.get("args")
    name = event.get("name")
    if isinstance(name, str):
        thin["name"] = _name(event.get("cat") or "", texts[name], public)
    if isinstance(args, dict):
        needed = dict(_only(args, ARGUMENTS, texts))
        if needed:
            thin["args"] = needed
    return thin


def _name(category: str, name: str, public: PublicNames) -> str:
    if plain_category(category) in CALLS:
        return name
    if kind_of(plain_category(category)) is not None:
        return public.of_kernel(name)
    return public.of_range(name)


def _properties(stated: dict[str, Any], texts: _Cleaned) -> dict[str, Any]:
    """Rank, groups and GPUs."""
    listed = stated.get("deviceProperties")
    own = stated.get("distributedInfo")
    gpus = []
    for gpu in listed or []:
        if isinstance(gpu, dict):
            gpus.append(dict(_only(gpu, ("id", "name"), texts)))
    ranks = dict(_only(own, DISTRIBUTED, texts)) if isinstance(own, dict) else {}
    base = dict(_only(stated, (BASE,), texts))
    return {"schemaVersion": 1, **base, "deviceProperties": gpus, "distributedInfo": ranks}


def _only(
    document: dict[str, Any], keys: tuple[str, ...], texts: _Cleaned
) -> Iterator[tuple[str, Any]]:
    for key in keys:
        if key in document:
            yield key, _cleaned(document[key], texts)


def _cleaned(value: Any, texts: _Cleaned) -> Any:
    if isinstance(value, str):
        return texts[value]
    if isinstance(value, list):
        return [_cleaned(each, texts) for each in value]
    if isinstance(value, dict):
        return {key: _cleaned(each, texts) for key, each in value.items()}
    return value
