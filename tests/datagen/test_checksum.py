"""The checksum is zlib's, whatever the length and whatever stood before."""

from __future__ import annotations

import random
import zlib

import pytest

from datagen import checksum
from datagen.checksum import FAR, NEAR, PIECE, crc32


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_a_byte_flipped_at_three_places_changes_no_checksum(bits):
    """The one fact that the rest is built on."""
    flipped = bytearray(FAR + 1)
    flipped[0] = flipped[NEAR] = flipped[FAR] = bits
    assert zlib.crc32(flipped) == zlib.crc32(bytes(FAR + 1))


@pytest.mark.parametrize(
    "size",
    [0, 1, 3 * FAR - 1, 3 * FAR, 3 * FAR + 1, FAR + 4 * NEAR - 1, FAR + 4 * NEAR, PIECE, PIECE + 1, 3 * PIECE - 7],
)
@pytest.mark.parametrize("start", [0, 1, 0xDEADBEEF, 0xFFFFFFFF])
def test_it_is_that_of_zlib(size, start):
    data = random.Random(size).randbytes(size)
    assert crc32(data, start) == zlib.crc32(data, start)


def test_pieces_may_have_any_size(monkeypatch):
    monkeypatch.setattr(checksum, "PIECE", 3 * FAR + 1)
    data = random.Random(1).randbytes(20 * FAR)
    assert crc32(memoryview(data)[5:]) == zlib.crc32(data[5:])
