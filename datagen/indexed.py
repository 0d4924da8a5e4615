"""Megatron's indexed data set: ``.bin`` holds tokens and nothing else, ``.idx`` says where documents begin.

The format is that of megatron-core's ``megatron/core/datasets/indexed_dataset.py`` (0.16): little-endian; a magic
number, a version, the code of the dtype, how many sequences, how many documents plus one; then the length of each
sequence (int32), its offset in bytes (int64), and the first sequence of each document (int64). Here every document is
one sequence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy

from benchrun.errors import UserError
from datagen.sampling import Ints

MAGIC = b"MMIDIDX\x00\x00"
HEAD = struct.Struct("<9sQBQQ")
CODES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}
LONGEST = 2**31 - 1
"""A length is an int32."""

DOCUMENT_BYTES = 4 + 8 + 8
"""Of an index, for each document."""


def dtype_of(vocab_size: int) -> str:
    """The dtype that Megatron takes for so many tokens."""
    return "uint16" if vocab_size < 65500 else "int32"


def write_index(path: Path, dtype: str, documents: int, lengths: Callable[[], Iterable[Ints]]) -> None:
    """Write an index of ``documents`` whose lengths come in blocks; ``lengths`` is called once for each table."""
    code = next(code for code, name in CODES.items() if name == dtype)
    with path.open("wb") as file:
        file.write(HEAD.pack(MAGIC, 1, code, documents, documents + 1))
        for block in lengths():
            file.write(block.astype("<i4").tobytes())
        offset = 0
        for block in lengths():
            ends = numpy.cumsum(block, dtype=numpy.int64) * numpy.dtype(dtype).itemsize + offset
            file.write(numpy.concatenate(([offset], ends[:-1])).astype("<i8").tobytes())
            offset = int(ends[-1])
        for start in range(0, documents + 1, 1 << 16):
            file.write(numpy.arange(start, min(start + (1 << 16), documents + 1), dtype="<i8").tobytes())


class Index(NamedTuple):
    """What an ``.idx`` says; the tables are read from the file where they are used."""

    dtype: Any
    lengths: Ints
    """[sequences] int32."""
    offsets: Ints
    """[sequences] int64, bytes."""
    documents: int

    @property
    def tokens(self) -> int:
        """Of all sequences."""
        return int(self.lengths.sum(dtype=numpy.int64))


def read_index(path: Path) -> Index:
    """The index in ``path``. UserError if it is none, or not whole."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = _head(file, path)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=str(path)) from error
    code, sequences, bounds = head
    expected = HEAD.size + 12 * sequences + 8 * bounds
    if size != expected:
        message = f"{size} bytes, but {sequences} sequences and {bounds - 1} documents need {expected}"
        raise UserError(message, where=str(path), hint="the file was cut, or is of a multimodal data set")
    if not sequences:
        return Index(numpy.dtype(CODES[code]), numpy.empty(0, "<i4"), numpy.empty(0, "<i8"), bounds - 1)
    lengths = numpy.memmap(path, "<i4", "r", HEAD.size, (sequences,))
    offsets = numpy.memmap(path, "<i8", "r", HEAD.size + 4 * sequences, (sequences,))
    return Index(numpy.dtype(CODES[code]), cast("Ints", lengths), cast("Ints", offsets), bounds - 1)


def _head(file: BinaryIO, path: Path) -> tuple[int, int, int]:
    head = file.read(HEAD.size)
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise UserError("not the index of a Megatron data set", where=str(path))
    _, version, code, sequences, bounds = HEAD.unpack(head)
    if version != 1 or code not in CODES or bounds < 1:
        raise UserError(f"an index of version {version}, dtype {code}, which nobody writes", where=str(path))
    return code, sequences, bounds


def blocks_of(path: Path, dtype: Any, count: int = 1 << 20) -> Iterator[Ints]:
    """The tokens of a ``.bin``, so many at a time."""
    with path.open("rb") as file:
        while data := file.read(count * dtype.itemsize):
            yield numpy.frombuffer(data, dtype)
