"""Bytes -> the few lines that can matter. Memory stays flat whatever the size.

A log of many ranks is nearly all noise. So nothing is decoded or split first: each
block is searched for fixed byte strings, which runs at memory speed, and only the lines
around the hits are cut out.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST_LINE = 1 << 22
"""Bytes of a line above which only the end is kept: it is no record of anything."""
BEFORE_HIT, AFTER_HIT = 1 << 12, 1 << 14
"""Bytes around a hit that are read of a line longer than both together."""
LONGEST_WHOLE = BEFORE_HIT + AFTER_HIT
FAR = 1 << 12
WIDTH, STRIDE = 8, 4
SHORTEST = WIDTH + STRIDE - 1
_BITS = 16
_FACTOR = np.uint64(
    0x9E3779B97F4A7C15
)  # 2^64 / golden ratio: spreads what differs only in a few bits
_SHIFT = np.uint64(64 - _BITS)
_DATE = re.compile(r"\b(20\d\d-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)\b")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Line(NamedTuple):
    """One line, decoded and without escape sequences."""

    number: int
    """Number of the line from 1; only LF counts a line, as in every editor."""
    text: str
    terminated: bool
    """False for the last line of a file that ends in the middle of it."""


class Hit(NamedTuple):
    """Place at which something that can matter was found, and the reader that it
    concerns.
    """

    at: int
    owner: int


def find_all(block: bytes, needle: bytes, owner: int) -> Iterator[Hit]:
    """Every place of ``needle`` in ``block``."""
    at = block.find(needle)
    while at >= 0:
        yield Hit(at, owner)
        at = block.find(needle, at + 1)


class Grams:
    """Many fixed strings looked for at once, at about 2 GB/s, however many they are.

    Every string has a piece of WIDTH + STRIDE - 1 bytes that is rare in other text.
    Wherever that stands, 8 bytes of it start at a multiple of STRIDE. All such eights
    of the block are hashed with one multiplication and looked up in a table of the
    strings' own. What the table lets through is then compared for real.
    """

    def __init__(self, words: Sequence[tuple[bytes, int]]) -> None:
        """``words``: strings, each with the number of its owner. Short ones are
        searched one by one: have few.
        """
        self._short = [(word, owner) for word, owner in words if len(word) < SHORTEST]
        self._table = np.zeros(1 << _BITS, dtype=bool)
        self._hashes = np.empty(0, np.uint64)
        self._passed = np.empty(0, bool)
        self._words: dict[bytes, list[tuple[int, bytes, int]]] = {}
        """Piece -> its offset in a string, the string, and the owner."""
        for word, owner in words:
            if len(word) < SHORTEST:
                continue
            rarest = _rarest(word)
            for offset in range(rarest, rarest + STRIDE):
                piece = word[offset : offset + WIDTH]
                self._words.setdefault(piece, []).append((offset, word, owner))
                self._table[self._hash(np.frombuffer(piece, np.uint64))] = True

        self._pieces = np.sort(np.frombuffer(b"".join(self._words), np.uint64))

    def find(self, block: bytes) -> list[Hit]:
        """All places of the strings, in no order."""
        hits = [hit for word, owner in self._short for hit in find_all(block, word, owner)]
        for phase in range(0, WIDTH, STRIDE):
            count = (len(block) - phase) // WIDTH
            if count <= 0:
                continue
            pieces = np.frombuffer(block, np.uint64, count, phase)
            hashes = self._hash(pieces).view(np.int64)
            passed = np.take(self._table, hashes, out=self._passed[:count], mode="wrap")
            candidates = np.flatnonzero(passed)
            # Most pieces with the same hash are something else: a row of asterisks may
            # stand in every line.
            places = np.searchsorted(self._pieces, pieces[candidates]) % len(self._pieces)
            for index in candidates[self._pieces[places] == pieces[candidates]].tolist():
                at = phase + index * WIDTH
                for offset, word, owner in self._words[block[at : at + WIDTH]]:
                    if at >= offset and block.startswith(word, at - offset):
                        hits.append(Hit(at - offset, owner))
        return hits

    def _hash(self, pieces: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Into buffers that are used again: fresh memory for each block would cost more
        than the arithmetic.
        """
        if len(pieces) > len(self._hashes):
            self._hashes, self._passed = (
                np.empty(len(pieces), np.uint64),
                np.empty(len(pieces), bool),
            )
        hashes = self._hashes[: len(pieces)]
        np.multiply(pieces, _FACTOR, out=hashes)
        np.right_shift(hashes, _SHIFT, out=hashes)
        return hashes


def _rarest(word: bytes) -> int:
    """Begin of the rarest piece of ``word``: capitals and signs are rarer than small
    letters; digits are everywhere.
    """
    common = []
    for letter in word.decode("latin-1"):
        common.append(letter.islower() or letter.isspace() or letter.isdigit())
    starts = range(len(word) - SHORTEST + 1)
    return min(reversed(starts), key=lambda at: sum(common[at : at + SHORTEST]))


def newlines(block: bytes, start: int = 0, end: int | None = None) -> int:
    """Number of lines that end between ``start`` and ``end``; if they are far apart
    numpy is four times as fast.
    """
    end = len(block) if end is None else end
    if end - start < FAR:
        return block.count(b"\n", start, end)
    return int(np.count_nonzero(np.frombuffer(block, np.uint8, end - start, start) == 10))


def lines_around(
    block: bytes,
    hits: list[Hit],
    number: int,
    *,
    terminated: bool,
    follow: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Line, set[int]]]:
    """Each line with a hit, in order, with the owners of its hits; ``number`` is that
    of the block's first line.

    While ``follow()`` is true, the next line comes also without a hit.
    """
    carriage = b"\r" in block
    hits.sort()
    line_start, line_end = 0, -1
    index = rest = 0
    while True:
        at = hits[index].at if index < len(hits) else len(block)
        if follow():
            at = min(at, rest)
        if at >= len(block):
            return
        if at > line_end:
            start = block.rfind(b"\n", max(line_end, 0), at) + 1
            start = start or max(line_end, 0)
            number += newlines(block, line_start, start)
            line_start, line_end = start, block.find(b"\n", at)
            line_end = len(block) if line_end < 0 else line_end
        first, end = line_start, line_end
        if carriage:  # the part of the line between two
            first, stop = max(first, block.rfind(b"\r", first, at) + 1), block.find(b"\r", at, end)
            end = end if stop < 0 else stop
        rest = end + 1
        if end - first > LONGEST_WHOLE:
            first, end = max(first, at - BEFORE_HIT), min(end, at + AFTER_HIT)
        owners = set()
        while index < len(hits) and hits[index].at < end:
            owners.add(hits[index].owner)
            index += 1
        yield Line(number, clean(block[first:end]), terminated or end < len(block)), owners


def windows(piece: str, number: int, needles: Sequence[str]) -> Sequence[Line]:
    """A whole piece of line as ``lines_around`` gives it: of a very long one only what
    is near the needles.
    """
    if len(piece) <= LONGEST_WHOLE:
        return (Line(number, piece, terminated=True),)
    block = piece.encode()
    hits: list[Hit] = []
    for needle in needles:
        hits += find_all(block, needle.encode(), 0)
    return [line for line, _ in lines_around(block, hits, number, terminated=True)]


def clean(raw: bytes) -> str:
    """Decode, and drop what only a terminal wants."""
    text = raw.decode("utf-8", errors="replace")
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\x1b" in text:
        return _ANSI.sub("", text)
    return text


def date_of(text: str) -> float | None:
    """The first date on a line, in s since 1970 if it is in UTC."""
    match = _DATE.search(text)
    try:
        if match:
            return datetime.fromisoformat(f"{match[1]} {match[2]}+00:00").timestamp()
        return None
    except ValueError:
        return None


_DECODER = json.JSONDecoder()


def object_in(text: str) -> dict[str, Any]:
    """The JSON object that ``text`` begins with; empty if there is none."""
    try:
        value = _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    return {}
