"""CRC-32 as zlib has it, of much data in half the time: most of the work is XORs of long rows.

The polynomial of this CRC divides 1 + x^(8 * (FAR - NEAR)) + x^(8 * FAR). So who flips some bits of a byte, and the
same bits of the bytes NEAR and FAR after it, changes no CRC. So a byte can be moved, leaving 0, by an XOR to each of
those two. All but the last FAR bytes are moved, one after the other, and zlib sees only those. The idea is Russell's:
"Chorba: A novel CRC32 implementation" (2024, arXiv 2412.16398).
"""

from __future__ import annotations

import zlib

import numpy

NEAR, FAR = 105_611, 130_360
"""Bytes. There are some ten such pairs below 300,000; with this one rows are long and few bytes are left to zlib."""
PIECE = 1 << 22
"""Bytes at a time: of these, FAR are left to zlib."""
ROWS = 4
"""Of NEAR bytes, in memory at a time; 4 and 8 take the same time, 1, 2 and 20 more."""


def crc32(data: bytes | memoryview, start: int = 0) -> int:
    """CRC-32 of ``data``, continued from that of what stood before it."""
    view = memoryview(data)
    for place in range(0, len(view), PIECE):
        start = _crc32(view[place : place + PIECE], start)
    return start


def _crc32(data: memoryview, start: int) -> int:
    count = len(data) - FAR  # that are moved
    if count < 2 * FAR:
        return zlib.crc32(data, start)
    row = numpy.frombuffer(data, numpy.uint8)
    # Every byte with what was moved to it, behind what stands FAR before it. Only the last FAR bytes are needed again:
    # from the end of this memory they are brought back to its start, so that all of it stays in a core's own cache. A
    # CRC goes on from another by an XOR to its first four bytes: that stands FAR before them.
    moved = numpy.empty(FAR + ROWS * NEAR, numpy.uint8)
    moved[:FAR] = 0
    moved[:4] = tuple((start ^ 0xFFFFFFFF).to_bytes(4, "little"))
    end = FAR
    for place in range(0, count, NEAR):
        if end == len(moved):
            moved[:FAR] = moved[-FAR:]
            end = FAR
        size = min(NEAR, count - place)
        here = moved[end : end + size]
        numpy.bitwise_xor(row[place : place + size], moved[end - FAR :][:size], out=here)
        numpy.bitwise_xor(here, moved[end - NEAR :][:size], out=here)
        end += size
    last = row[count:] ^ moved[end - FAR : end]
    last[:NEAR] ^= moved[end - NEAR : end]
    return zlib.crc32(last.data, 0xFFFFFFFF)  # with an XOR of 0: zlib inverts it
