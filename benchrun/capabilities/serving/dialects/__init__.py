"""The outputs of clients that measure a server: blocks of lines on a console, and JSON
documents.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

from benchrun.logs.dialect import Dialect
from benchrun.logs.lines import Line
from benchrun.logs.serving import Document, Served, plain

_CLOCKS = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:[\d:.,]{2,24}(?:Z|[+-]\d\d:?\d\d)?",
    r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?",
    r"\+? {0,12}\d{1,9}\.\d{1,9}(?: ?s)?",
)
"""Regexes of a time of day, and of a time since the start: ``[+ 12.3 s]``."""
BEFORE = re.compile(
    r"(?: {0,7}\d{1,6}: |\[\d{1,6},\d{1,6}\]<\w{1,9}>: ?|\[(?:default|rank)\d{1,7}\]: ?|"
    rf"\[(?:{'|'.join(_CLOCKS)})\] ?|"
    r"\d{4}-\d\d-\d\dT[\d:.]{5,24}(?:Z|[+-]\d\d:\d\d) (?:stdout F )?|"
    r"\([\w ]{0,60}pid=\d{1,9}[^()]{0,60}\) |> ){1,4}"
)
"""Labels before a line of a client: rank (srun, mpirun, torchrun), clock, process
(Ray), a quote.
"""


def part(document: Document, key: str) -> Document:
    """The object at ``key``; an empty one if there is anything else."""
    value = document.get(key)
    if isinstance(value, dict):
        return value
    return {}


class Console(Dialect):
    """Reads the blocks that a client prints. A label belongs to the block whose head
    came last.
    """

    labels: ClassVar[Mapping[str, str]] = {}
    """Label before the colon -> name of the result."""
    stated: ClassVar[Mapping[str, str]] = {}
    """Label before the colon -> name of the setting."""
    head_words: ClassVar[str]
    """A line with these begins a block."""

    def __init__(self) -> None:
        super().__init__()
        self.block: Served | None = None

    def read(self, line: Line) -> None:
        """Take one line: a head, or what stands in a block."""
        if not self.whole(line):
            return
        if self.head_words in line.text:
            self.block = Served(self.name, closed=False)
        elif self.block is not None:
            self.take_line(own(line.text))

    def take_line(self, text: str) -> None:
        """Take a line of the block: a label with its value."""
        label, colon, value = text.rpartition(":")
        label = re.sub(r"\s+", " ", label.strip())
        if colon and self.block is not None:
            name, number = self.labels.get(label) or latency(label), plain(value)
            if name and value.strip():
                self.block.put(name, value.strip() if number is None else number)
                self.publish()
            elif label in self.stated and value.strip() != "not set":
                self.block.settings[self.stated[label]] = (
                    value.strip() if number is None else number
                )

    def close(self) -> None:
        """End the block."""
        if self.block is not None and (self.block.values or self.block.damaged):
            self.block.closed = True
            self.block.completed()
            self.publish()
        self.block = None

    def publish(self) -> None:
        """Make what was read of the block the newest result."""
        if self.block is None:
            return
        if not self.served or self.served[-1] is not self.block:
            self.served.append(self.block)
        self.results, self.facts, self.ended = (
            self.block.values,
            self.block.facts,
            self.block.closed,
        )

    @property
    def seen(self) -> bool:
        """Whether a block has a result."""
        return bool(self.served)


def own(text: str) -> str:
    """Part of a line that the client itself wrote."""
    before = BEFORE.match(text)
    return (text[before.end() :] if before else text).strip()


_LATENCY = re.compile(r"(Mean|Median|Max|P[\d.]+) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)")
_LABELS = {"E2E Latency": "e2el"}


def latency(label: str) -> str | None:
    """``Mean TTFT (ms)`` -> ``mean_ttft_ms``; None for any other label."""
    match = _LATENCY.fullmatch(label)
    if match:
        return f"{match[1].lower()}_{_LABELS.get(match[2], match[2].lower())}_ms"
    return None
