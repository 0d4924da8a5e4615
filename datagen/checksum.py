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
"""Bytes at a time: what is moved stays in a processor's cache."""


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
    # Every byte with what was moved to it, behind FAR zeros. A CRC goes on from another by an XOR to its first four
    # bytes: that stands FAR before them.
    moved = numpy.empty(FAR + count, numpy.uint8)
    moved[:FAR] = 0
    moved[:4] = tuple((start ^ 0xFFFFFFFF).to_bytes(4, "little"))
    for place in range(0, count, NEAR):
        here = moved[FAR + place : FAR + place + NEAR]
        numpy.bitwise_xor(row[place : place + len(here)], moved[place : place + len(here)], out=here)
        numpy.bitwise_xor(here, moved[FAR - NEAR + place : FAR - NEAR + place + len(here)], out=here)
    last = row[count:] ^ moved[count:]
    last[:NEAR] ^= moved[count + FAR - NEAR :]
    return zlib.crc32(last.data, 0xFFFFFFFF)  # with an XOR of 0: zlib inverts it
