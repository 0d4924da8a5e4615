"""Many fixed strings looked for at once, at about 2 GB/s, however many they are.

Every string has a piece of WIDTH + STRIDE - 1 bytes that is rare in other text. Wherever that stands, 8 bytes of it
start at a multiple of STRIDE. All such eights of the block are hashed with one multiplication and looked up in a table
of the strings' own. What the table lets through is then compared for real.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchrun.parse.lines import Hit, find_all

WIDTH, STRIDE = 8, 4
SHORTEST = WIDTH + STRIDE - 1
_BITS = 16
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads what differs only in a few bits
_SHIFT = np.uint64(64 - _BITS)


class Grams:
    """A compiled set of strings to search for."""

    def __init__(self, words: Sequence[tuple[bytes, int]]) -> None:
        """``words``: strings, each with the number of its owner. Short ones are searched one by one: have few."""
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
            # Of what shares a hash with a piece most is something else: a row of asterisks may stand in every line.
            places = np.searchsorted(self._pieces, pieces[candidates]) % len(self._pieces)
            for index in candidates[self._pieces[places] == pieces[candidates]].tolist():
                at = phase + index * WIDTH
                for offset, word, owner in self._words[block[at : at + WIDTH]]:
                    if at >= offset and block.startswith(word, at - offset):
                        hits.append(Hit(at - offset, owner))
        return hits

    def _hash(self, pieces: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Into buffers that are used again: fresh memory for each block would cost more than the arithmetic."""
        if len(pieces) > len(self._hashes):
            self._hashes, self._passed = np.empty(len(pieces), np.uint64), np.empty(len(pieces), bool)
        hashes = self._hashes[: len(pieces)]
        np.multiply(pieces, _FACTOR, out=hashes)
        np.right_shift(hashes, _SHIFT, out=hashes)
        return hashes


def _rarest(word: bytes) -> int:
    """Where the piece to look for begins: capitals and signs are rarer than small letters; digits are everywhere."""
    common = [letter.islower() or letter.isspace() or letter.isdigit() for letter in word.decode("latin-1")]
    starts = range(len(word) - SHORTEST + 1)
    return min(reversed(starts), key=lambda at: sum(common[at : at + SHORTEST]))
