"""Bytes -> the few lines that can matter, with their numbers. Memory stays flat whatever the size.

A log of many ranks is nearly all noise. So nothing is decoded or split first: each chunk is searched for fixed
byte strings (which runs at memory speed), and only the lines around the hits are cut out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

CHUNK = 1 << 20
LONGEST_LINE = 1 << 22
"""A line longer than this is no record of anything; its beginning is dropped."""
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Line(NamedTuple):
    """One line, decoded and without escape sequences."""

    number: int
    text: str
    terminated: bool
    """False for the last line of a file that ends in the middle of it."""


def matching_lines(stream: BinaryIO, needles: Sequence[bytes]) -> Iterator[Line]:
    """Lines of ``stream`` that contain one of ``needles``; both LF and CR end a line, only LF counts one."""
    number, rest = 1, b""
    while chunk := stream.read(CHUNK):
        block = rest + chunk
        end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        whole, rest = block[:end], block[end:]
        yield from _in_block(whole, needles, number, terminated=True)
        number += whole.count(b"\n")
        if len(rest) > LONGEST_LINE:
            rest = rest[-CHUNK:]
    if rest:
        yield from _in_block(rest, needles, number, terminated=False)


def _in_block(block: bytes, needles: Sequence[bytes], number: int, *, terminated: bool) -> Iterator[Line]:
    counted = 0
    for start, end in sorted(_spans(block, needles)):
        number += block.count(b"\n", counted, start)
        counted = start
        yield Line(number, clean(block[start:end]), terminated)


def _spans(block: bytes, needles: Sequence[bytes]) -> set[tuple[int, int]]:
    spans = set()
    for needle in needles:
        at = block.find(needle)
        while at >= 0:
            start = max(block.rfind(b"\n", 0, at), block.rfind(b"\r", 0, at)) + 1
            end = _line_end(block, at)
            spans.add((start, end))
            at = block.find(needle, end)
    return spans


def _line_end(block: bytes, at: int) -> int:
    ends = [end for end in (block.find(b"\n", at), block.find(b"\r", at)) if end >= 0]
    return min(ends, default=len(block))


def clean(raw: bytes) -> str:
    """Decode, and drop what only a terminal wants."""
    text = raw.decode("utf-8", errors="replace").replace("\x00", "")
    return _ANSI.sub("", text) if "\x1b" in text else text
