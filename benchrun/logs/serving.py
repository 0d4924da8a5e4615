"""Results of benchmark clients of inference servers: one record for each benchmark, in
names and units of our own.

A client prints a block of lines, or writes a JSON document. Both become a `Served`.
Rates are of all GPUs together, in 1/s; latencies are in ms, as ``mean_ttft_ms``; what a
client does not print is absent.
"""

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchrun import extensions

from .numerals import LARGEST
from .records import Facts

LATENCIES = ("ttft", "tpot", "itl", "e2el")
"""Time to the first token; per output token after it, of a request; between two chunks
of a stream; of a request.
"""
LARGEST_DOCUMENT = 1 << 28
"""Bytes of the largest result file that is read."""


@dataclass
class Served:
    """The result of one benchmark."""

    framework: str
    """Name of the dialect that read it."""
    values: dict[str, float] = field(default_factory=dict)
    """Results by name."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that the client states of the requests and the server: ``concurrency``,
    ``request_rate`` (inf: all at once).
    """
    facts: Facts = field(default_factory=Facts)
    """Number of GPUs, degrees of the layout, precision."""
    closed: bool = True
    """The end of the block was seen."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Values that are stated for a result and cannot be one: text, NaN, below zero."""

    def put(self, name: str, value: Any, scale: float = 1.0) -> None:
        """Add a result, unless it is no finite number of credible size."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and 0 <= value <= LARGEST / scale:
            self.values[name] = float(value * scale)
        elif value is not None:
            self.damaged[name] = str(value)[:40] if number else repr(value)[:40]

    def completed(self) -> "Served":
        """Add what follows from the other results."""
        values = self.values
        for side in ("input", "output"):
            if values.get("completed") and f"total_{side}_tokens" in values:
                values[f"mean_{side}_tokens"] = values[f"total_{side}_tokens"] / values["completed"]
        if (
            values.get("duration_s")
            and {"output_tokens_per_s", "total_input_tokens"} <= values.keys()
        ):
            prompts_per_s = values["total_input_tokens"] / values["duration_s"]
            values.setdefault("total_tokens_per_s", values["output_tokens_per_s"] + prompts_per_s)
        if values.get("mean_tpot_ms"):
            values.setdefault("output_tokens_per_s_per_user", 1000 / values["mean_tpot_ms"])
        if "failed" not in values and "num_prompts" in values and "completed" in values:
            values["failed"] = max(values["num_prompts"] - values["completed"], 0.0)
        if "num_prompts" not in values and "failed" in values and "completed" in values:
            values["num_prompts"] = values["completed"] + values["failed"]
        return self

    @property
    def whole(self) -> bool | None:
        """Whether every request was answered; None if the client does not say how many
        it sent.
        """
        if not self.closed:
            return False
        if "completed" not in self.values or "num_prompts" not in self.values:
            return None
        return self.values["completed"] == self.values["num_prompts"] > 0


Document = Mapping[str, Any]


def documents(data: bytes) -> Iterator[Served]:
    """The results in a JSON document, an array of them, or lines of JSON; none of
    anything else.
    """
    for entry in _objects(data):
        records = entry if isinstance(entry, list) else [entry]
        for record in records:
            if isinstance(record, dict):
                read = (served for reader in _readers() if (served := reader(record)))
                if (served := next(read, None)) is not None:
                    yield served.completed()


@functools.cache
def _readers() -> tuple[Callable[[Any], Served | None], ...]:
    """Readers of one JSON object; the first that recognises it counts."""
    return tuple(extensions.everything("documents"))


def cut_off(data: bytes) -> bool:
    """Whether a JSON document begins in ``data`` and does not end there: half a line of
    several, say.
    """
    return any(entry is CUT for entry in _objects(data))


CUT = object()
"""Mark in place of an object that is damaged."""
_DECODER = json.JSONDecoder()
MOST_LONG = 100
"""Documents of several lines that are looked for in a file: each that is damaged costs
a look at the rest.
"""


def _objects(data: bytes) -> Iterator[Any]:
    """The JSON documents of a file, on a line each or over many lines; after a damaged
    one the next line counts.

    Of an array that is cut off its whole documents come alone.
    """
    text, at, looks = data.decode("utf-8", errors="replace"), 0, MOST_LONG
    while at < len(text):
        newline = text.find("\n", at)
        end = newline if newline >= 0 else len(text)
        line = text[at:end].strip().lstrip(",").lstrip()
        entry = _decoded(line)
        if entry is CUT and line.startswith(("{", "[")) and looks:
            looks -= 1
            with contextlib.suppress(ValueError, RecursionError):
                entry, end = _DECODER.raw_decode(text, text.index(line[0], at))
            if entry is CUT and line.startswith("["):
                end = text.index("[", at) + 1
        if entry is not CUT or line.startswith(("{", "[")):
            yield entry
        at = max(end, at + 1)


def _decoded(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return CUT


def plain(text: str) -> float | None:
    """The number that a cell is, with or without separators of thousands; None for
    anything else.
    """
    text = text.strip()
    number = re.fullmatch(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d*)?([eE][-+]?\d+)?", text)
    if number:
        return float(text.replace(",", ""))
    return None
