"""Make a data set of tokens: parts on several processes, then the indices and the manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial as bind
from itertools import chain
from pathlib import Path

from datagen.indexed import write_index
from datagen.manifest import Manifest
from datagen.output import Journal, Progress, Result, beside, file_entry, make_once, partial
from datagen.tokens import Parameters, Part, Shard, lengths, make, parts, plan, shard_prefix
from datagen.workers import in_order

AT_ONCE = 4
"""Parts that a process makes without waiting for the disk: 256 MiB, which an interrupted process loses."""


def make_tokens(prefix: Path, parameters: Parameters, workers: int, progress: Progress) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises as :func:`make_once`."""
    names = [shard_prefix(prefix, parameters, number) for number in range(parameters.shards)]
    outputs = [beside(name, suffix) for name in names for suffix in (".bin", ".idx")]
    size = parameters.bytes + parameters.index_bytes
    return make_once(
        prefix, "tokens", parameters, outputs, bind(_make, prefix, parameters, workers, progress), size=size
    )


def _make(prefix: Path, parameters: Parameters, workers: int, progress: Progress, journal: Journal) -> Result:
    shards = plan(parameters)
    sums: dict[Part, int] = {}
    done = 0
    for part, checksum in _make_parts(prefix, parameters, shards, journal.done, workers):
        if journal.done.get(part.name) != checksum:
            journal.add(part.name, checksum)
        sums[part] = checksum
        done += part.size
        progress(done, parameters.bytes)

    files = []
    for shard in shards:
        name = shard_prefix(prefix, parameters, shard.number)
        index = beside(name, ".idx")
        write_index(partial(index), parameters.dtype, shard.documents, bind(lengths, parameters, shard))
        files.append(file_entry(beside(name, ".bin"), [sums[part] for part in parts(parameters, shard)]))
        files.append(file_entry(index))
    facts = {
        "dtype": parameters.dtype,
        "eod": parameters.vocab_size - 1,
        "documents": sum(shard.documents for shard in shards),
        "bytes": parameters.bytes,
        "floor_loss": round(parameters.floor_loss(), 6),
    }
    return facts, files


def _make_parts(
    prefix: Path, parameters: Parameters, shards: list[Shard], checksums: dict[str, int], workers: int
) -> Iterator[tuple[Part, int]]:
    """Every part and its CRC-32, in order; ``checksums`` are those of an interrupted command."""
    parameters.token_table()  # cached before the processes are forked
    tasks = (
        (shard, [(part, checksums.get(part.name)) for part in every[start : start + AT_ONCE]])
        for shard in shards
        for every in [parts(parameters, shard)]
        for start in range(0, len(every), AT_ONCE)
    )
    return chain.from_iterable(in_order(bind(make, prefix, parameters), tasks, workers))


def default_workers() -> int:
    """The number of cores that this process may use, at most eight: more would wait for the disk."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)
