"""Make a data set of tokens: parts on several processes, then the indices and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial as bind
from pathlib import Path
from typing import NamedTuple

import numpy

from datagen.checksum import crc32
from datagen.direct import DirectWriter
from datagen.indexed import write_index
from datagen.manifest import PART_BYTES, Manifest
from datagen.output import Journal, Progress, Result, beside, file_entry, make_once, partial
from datagen.tokens import Parameters, Shard, fill, lengths, plan
from datagen.workers import in_order

AT_ONCE = 4
"""Parts that a process makes without waiting for the disk: 256 MiB, which an interrupted process loses."""


class Batch(NamedTuple):
    """Consecutive parts of a shard, which one process makes."""

    path: Path
    shard: Shard
    first: int
    """Number of the first part."""
    sums: list[int | None]
    """CRC-32 of each part that an interrupted command made, None for the others."""


def make_tokens(prefix: Path, parameters: Parameters, workers: int, progress: Progress) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises as :func:`make_once`."""
    suffixes = [""] if parameters.shards == 1 else [f"_{number:05d}" for number in range(parameters.shards)]
    paths = [(beside(prefix, f"{suffix}.bin"), beside(prefix, f"{suffix}.idx")) for suffix in suffixes]

    def make(journal: Journal) -> Result:
        parameters.token_table()  # cached before the processes are forked
        shards = plan(parameters)
        pairs = zip(paths, shards, strict=True)
        batches = [batch for (data, _), shard in pairs for batch in _batches(data, parameters, shard, journal)]
        sums: list[list[int]] = [[] for _ in shards]
        done = 0
        for batch, results in zip(batches, in_order(bind(_write, parameters), batches, workers), strict=True):
            for number, (old, new) in enumerate(zip(batch.sums, results, strict=True), batch.first):
                if new != old:
                    journal.add(f"{batch.shard.number}:{number}", new)
            sums[batch.shard.number] += results
            rest = batch.shard.tokens * parameters.token_bytes - batch.first * PART_BYTES
            done += min(len(results) * PART_BYTES, rest)
            progress(done, parameters.bytes)
        files = []
        for shard, (data, index) in zip(shards, paths, strict=True):
            write_index(partial(index), parameters.dtype, shard.documents, bind(lengths, parameters, shard))
            files += [file_entry(data, sums[shard.number]), file_entry(index)]
        facts = {
            "dtype": parameters.dtype,
            "eod": parameters.vocab_size - 1,
            "documents": sum(shard.documents for shard in shards),
            "bytes": parameters.bytes,
            "floor_loss": round(parameters.floor_loss(), 6),
        }
        return facts, files

    outputs = [path for pair in paths for path in pair]
    size = parameters.bytes + parameters.index_bytes
    return make_once(prefix, "tokens", parameters, outputs, make, size=size)


def _batches(path: Path, parameters: Parameters, shard: Shard, journal: Journal) -> Iterator[Batch]:
    count = -(-shard.tokens * parameters.token_bytes // PART_BYTES)
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        yield Batch(partial(path), shard, first, [journal.done.get(f"{shard.number}:{number}") for number in numbers])


def _write(parameters: Parameters, batch: Batch) -> list[int]:
    """Write the parts of a batch, except those that are intact on the disk; returns the CRC-32 of each."""
    size = batch.shard.tokens * parameters.token_bytes

    def fill_bytes(place: int, memory: memoryview) -> None:
        fill(parameters, batch.shard, place // parameters.token_bytes, numpy.frombuffer(memory, parameters.dtype))

    sums = []
    with DirectWriter(batch.path) as writer:
        for number, checksum in enumerate(batch.sums, batch.first):
            start, length = number * PART_BYTES, min(PART_BYTES, size - number * PART_BYTES)
            if checksum is None or _checksum_on_disk(batch.path, start, length) != checksum:
                checksum = writer.write(start, length, fill_bytes)
            sums.append(checksum)
    return sums


def _checksum_on_disk(path: Path, start: int, size: int) -> int | None:
    """CRC-32 of ``size`` bytes from ``start`` on; None if there is no file."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(start)
        return crc32(file.read(size))
    return None
