"""Bytes -> the few lines that can matter. Memory stays flat whatever the size.

A log of many ranks is nearly all noise. So nothing is decoded or split first: each block is searched for fixed byte
strings, which runs at memory speed, and only the lines around the hits are cut out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

LONGEST_LINE = 1 << 22
"""Of a longer line only the end is kept: it is no record of anything."""
BEFORE_HIT, AFTER_HIT = 1 << 12, 1 << 14
"""Of a line longer than these together only so much around a hit is read."""
LONGEST_WHOLE = BEFORE_HIT + AFTER_HIT
FAR = 1 << 12
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Line(NamedTuple):
    """One line, decoded and without escape sequences."""

    number: int
    """From 1; only LF counts a line, as in every editor."""
    text: str
    terminated: bool
    """False for the last line of a file that ends in the middle of it."""


class Hit(NamedTuple):
    """Where something that can matter was found, and which reader it concerns."""

    at: int
    owner: int


def find_all(block: bytes, needle: bytes, owner: int) -> Iterator[Hit]:
    """Every place of ``needle`` in ``block``."""
    at = block.find(needle)
    while at >= 0:
        yield Hit(at, owner)
        at = block.find(needle, at + 1)


def newlines(block: bytes, start: int = 0, end: int | None = None) -> int:
    """How many lines end between ``start`` and ``end``; where they are far apart numpy is four times as fast."""
    end = len(block) if end is None else end
    if end - start < FAR:
        return block.count(b"\n", start, end)
    return int(np.count_nonzero(np.frombuffer(block, np.uint8, end - start, start) == 10))


def lines_around(block: bytes, hits: list[Hit], number: int, *, terminated: bool) -> Iterator[tuple[Line, set[int]]]:
    """Each line with a hit, in order, with the owners of its hits; ``number`` is that of the block's first line."""
    carriage = b"\r" in block
    hits.sort()
    line_start, line_end = 0, -1
    index = 0
    while index < len(hits):
        at = hits[index].at
        if at > line_end:
            start = block.rfind(b"\n", max(line_end, 0), at) + 1
            start = start or max(line_end, 0)
            number += newlines(block, line_start, start)
            line_start, line_end = start, block.find(b"\n", at)
            line_end = len(block) if line_end < 0 else line_end
        first, end = _piece(block, line_start, at, line_end) if carriage else (line_start, line_end)
        if end - first > LONGEST_WHOLE:
            first, end = max(first, at - BEFORE_HIT), min(end, at + AFTER_HIT)
        owners = set()
        while index < len(hits) and hits[index].at < end:
            owners.add(hits[index].owner)
            index += 1
        yield Line(number, clean(block[first:end]), terminated or end < len(block)), owners


def _piece(block: bytes, start: int, at: int, end: int) -> tuple[int, int]:
    """The part of a line between carriage returns."""
    stop = block.find(b"\r", at, end)
    return max(start, block.rfind(b"\r", start, at) + 1), end if stop < 0 else stop


def windows(piece: str, number: int, needles: Sequence[str]) -> Sequence[Line]:
    """A whole piece of line as ``lines_around`` gives it: of a very long one only what is near the needles."""
    if len(piece) <= LONGEST_WHOLE:
        return (Line(number, piece, terminated=True),)
    block = piece.encode()
    hits = [hit for needle in needles for hit in find_all(block, needle.encode(), 0)]
    return [line for line, _ in lines_around(block, hits, number, terminated=True)]


def clean(raw: bytes) -> str:
    """Decode, and drop what only a terminal wants."""
    text = raw.decode("utf-8", errors="replace")
    if "\x00" in text:
        text = text.replace("\x00", "")
    return _ANSI.sub("", text) if "\x1b" in text else text
