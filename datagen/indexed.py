"""Megatron's indexed data set: ``.bin`` holds the tokens, ``.idx`` the lengths and
places of the documents.

The format is that of megatron-core's ``megatron/core/datasets/indexed_dataset.py``
(0.16), little-endian: a magic number, a version, the code of the dtype, the number of
sequences, the number of documents plus one; then the length of each sequence (int32),
its offset in bytes (int64), and the first sequence of each document (int64). Data sets
written here have one sequence per document.
"""

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from benchrun.errors import UserError

from .sampling import Ints

MAGIC = b"MMIDIDX\x00\x00"
HEAD = struct.Struct("<9sQBQQ")
CODES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float64",
    7: "float32",
    8: "uint16",
}
LONGEST = 2**31 - 1
"""The largest length, an int32."""

DOCUMENT_BYTES = 4 + 8 + 8
"""Bytes of an index per document."""


def write_index(
    path: Path,
    dtype: numpy.dtype[Any],
    documents: int,
    blocks: Callable[[], Iterable[tuple[Ints, Ints]]],
) -> None:
    """Write the index of ``documents`` documents; ``blocks`` yields their first tokens
    and lengths, once per table."""
    code = next(code for code, name in CODES.items() if name == dtype.name)
    with path.open("wb") as file:
        file.write(HEAD.pack(MAGIC, 1, code, documents, documents + 1))
        for _, lengths in blocks():
            file.write(lengths.astype("<i4").tobytes())
        for starts, _ in blocks():
            file.write((starts * dtype.itemsize).astype("<i8").tobytes())
        for start in range(0, documents + 1, 1 << 16):
            file.write(
                numpy.arange(start, min(start + (1 << 16), documents + 1), dtype="<i8").tobytes()
            )


class Index(NamedTuple):
    """An ``.idx``; its tables are mapped into memory and read where they are used."""

    dtype: Any
    lengths: Ints
    """[sequences] int32, in tokens."""
    offsets: Ints
    """[sequences] int64, in bytes."""
    documents: int

    @property
    def tokens(self) -> int:
        """The number of tokens of all sequences."""
        return int(self.lengths.sum(dtype=numpy.int64))


def read_index(prefix: Path) -> Index:
    """The index of ``prefix``. UserError if it is not an index, not complete, or does
    not agree with its ``.bin``."""
    path, data = prefix.with_name(prefix.name + ".idx"), prefix.with_name(prefix.name + ".bin")
    try:
        size = path.stat().st_size
        data_bytes = data.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEAD.size)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=error.filename) from error
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise UserError("not the index of a Megatron data set", where=path)
    _, version, code, sequences, bounds = HEAD.unpack(head)
    if version != 1 or code not in CODES or bounds < 1:
        raise UserError(f"unknown index: version {version}, dtype {code}", where=path)
    expected = HEAD.size + 12 * sequences + 8 * bounds
    if size != expected:
        message = (
            f"{size} bytes, but {sequences} sequences and {bounds - 1} documents need {expected}"
        )
        raise UserError(
            message,
            where=path,
            hint="the file is truncated, or belongs to a multimodal data set",
        )
    # The bounds of the documents, at least one number, follow, so that the map is never
    # empty.
    tables = numpy.memmap(path, numpy.uint8, "r", HEAD.size)
    dtype, (lengths, offsets, _) = (
        numpy.dtype(CODES[code]),
        numpy.split(tables, (4 * sequences, 12 * sequences)),
    )
    index = Index(dtype, lengths.view("<i4"), offsets.view("<i8"), bounds - 1)
    if data_bytes != index.tokens * dtype.itemsize:
        raise UserError(
            f"{data_bytes} bytes, but its index lists {index.tokens} tokens of {dtype}",
            where=data,
        )
    ends = index.offsets + index.lengths.astype(numpy.int64) * dtype.itemsize
    wrong = numpy.flatnonzero((index.lengths < 0) | (index.offsets < 0) | (ends > data_bytes))
    if len(wrong):
        raise UserError(f"sequence {wrong[0]} lies outside of {data.name}", where=path)
    return index
