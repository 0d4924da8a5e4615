"""The checksum equals zlib's for every length and start value."""

from __future__ import annotations

import random
import zlib

import pytest

from datagen import checksum
from datagen.checksum import FAR, NEAR, PIECE, crc32


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_the_same_flip_at_three_places_keeps_the_checksum(bits):
    """The property of the polynomial on which the module depends."""
    flipped = bytearray(FAR + 1)
    flipped[0] = flipped[NEAR] = flipped[FAR] = bits
    assert zlib.crc32(flipped) == zlib.crc32(bytes(FAR + 1))


@pytest.mark.parametrize(
    "size",
    [0, 1, 3 * FAR - 1, 3 * FAR, 3 * FAR + 1, FAR + 4 * NEAR - 1, FAR + 4 * NEAR, PIECE, PIECE + 1, 3 * PIECE - 7],
)
@pytest.mark.parametrize("start", [0, 1, 0xDEADBEEF, 0xFFFFFFFF])
def test_checksum_equals_zlib(size, start):
    data = random.Random(size).randbytes(size)
    assert crc32(data, start) == zlib.crc32(data, start)


def test_pieces_may_have_any_size(monkeypatch):
    monkeypatch.setattr(checksum, "PIECE", 3 * FAR + 1)
    data = random.Random(1).randbytes(20 * FAR)
    assert crc32(memoryview(data)[5:]) == zlib.crc32(data[5:])
