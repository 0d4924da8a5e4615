"""Make a data set of tokens: parts on several processes, then the indices and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial as bind
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from datagen.checksum import crc32
from datagen.direct import direct_writer
from datagen.indexed import write_index
from datagen.manifest import PART_BYTES, Manifest
from datagen.output import Journal, Progress, beside, make_once, partial
from datagen.tokens import Parameters, Shard, documents, fill, plan
from datagen.workers import in_order

AT_ONCE = 4
"""Parts that a process makes without waiting for the disk: 256 MiB, which an interrupted process loses."""


class Part(NamedTuple):
    """Bytes of a shard that have one checksum."""

    name: str
    """Name in the journal."""
    path: Path
    shard: Shard
    start: int
    size: int
    crc: int | None
    """CRC-32 of the bytes that an interrupted command made, None if it did not."""


def make_tokens(prefix: Path, parameters: Parameters, workers: int, progress: Progress) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises as :func:`make_once`."""
    suffixes = [""] if parameters.shards == 1 else [f"_{number:05d}" for number in range(parameters.shards)]
    outputs = [beside(prefix, suffix + kind) for suffix in suffixes for kind in (".bin", ".idx")]
    size = parameters.tokens * parameters.token_bytes

    def make(journal: Journal) -> dict[str, Any]:
        parameters.token_table()  # cached before the processes are forked
        shards = plan(parameters)
        paths = zip(shards, outputs[::2], strict=True)
        batches = [batch for shard, path in paths for batch in _batches(parameters, shard, path, journal)]
        done = 0
        for batch, sums in zip(batches, in_order(bind(_write, parameters), batches, workers), strict=True):
            for part, crc in zip(batch, sums, strict=True):
                if crc != part.crc:
                    journal.add(part.name, crc)
                journal.sums.setdefault(part.path, []).append(crc)
                done += part.size
            progress(done, size)
        for shard, path in zip(shards, outputs[1::2], strict=True):
            write_index(partial(path), parameters.dtype, shard.documents, bind(documents, parameters, shard))
        return {
            "dtype": parameters.dtype,
            "eod": parameters.vocab_size - 1,
            "documents": sum(shard.documents for shard in shards),
            "bytes": size,
            "floor_loss": round(parameters.floor_loss(), 6),
        }

    return make_once(prefix, "tokens", parameters, outputs, make, size=size + parameters.index_bytes)


def _batches(parameters: Parameters, shard: Shard, path: Path, journal: Journal) -> Iterator[list[Part]]:
    """Up to ``AT_ONCE`` consecutive parts each."""
    size, parts = shard.tokens * parameters.token_bytes, []
    for number, start in enumerate(range(0, size, PART_BYTES)):
        name = f"{shard.number}:{number}"
        parts.append(Part(name, path, shard, start, min(PART_BYTES, size - start), journal.done.get(name)))
    for first in range(0, len(parts), AT_ONCE):
        yield parts[first : first + AT_ONCE]


def _write(parameters: Parameters, batch: list[Part]) -> list[int]:
    """Write the parts, except those that are intact on the disk; returns the CRC-32 of each."""
    path, shard = partial(batch[0].path), batch[0].shard

    def fill_bytes(place: int, memory: memoryview) -> None:
        fill(parameters, shard, place // parameters.token_bytes, numpy.frombuffer(memory, parameters.dtype))

    sums = []
    with direct_writer(path) as write, path.open("rb") as file:
        for part in batch:
            file.seek(part.start)
            if part.crc is not None and crc32(file.read(part.size)) == part.crc:
                sums.append(part.crc)
            else:
                sums.append(write(part.start, part.size, fill_bytes))
    return sums
