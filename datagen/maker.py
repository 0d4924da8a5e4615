"""Make a data set of tokens: parts on several processes, the indices, the names, the manifest."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from datagen import __version__
from datagen.indexed import write_index
from datagen.manifest import Manifest
from datagen.output import Journal, beside, file_of, finish, locked, machine_errors, made, partial, room_for
from datagen.tokens import Made, Parameters, Part, Shard, facts, lengths, make, parts, plan, prefix_of
from datagen.workers import in_order

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the bytes there will be."""
AT_ONCE = 4
"""Parts that a process makes without waiting for the disk: 256 MiB, of which an interrupted one loses as much."""


def make_tokens(prefix: Path, parameters: Parameters, workers: int, progress: Progress) -> tuple[Manifest, bool]:
    """The data set at ``prefix``, and whether it had to be made; what an earlier process left unfinished is finished.

    UserError if something else is there; MachineError if the machine does not let it be written.
    """
    said = parameters.model_dump(mode="json")
    with machine_errors(prefix), locked(prefix):
        if there := made(prefix, "tokens", said):
            return there, False
        return _make(prefix, parameters, workers, progress), True


def _make(prefix: Path, parameters: Parameters, workers: int, progress: Progress) -> Manifest:
    names = [prefix_of(prefix, parameters, number) for number in range(parameters.shards)]
    outputs = [beside(name, suffix) for name in names for suffix in (".bin", ".idx")]
    room_for(prefix, parameters.bytes + parameters.index_bytes - _written(outputs))
    shards = plan(parameters)
    said = facts(parameters, shards)
    journal = Journal(prefix, "tokens", parameters.model_dump(mode="json"), outputs)

    sums: dict[Part, int] = {}
    done = 0
    for part, checksum, size in _all(prefix, parameters, shards, journal.done, workers):
        if journal.done.get(part.name) != checksum:
            journal.add(part.name, checksum)
        sums[part] = checksum
        done += size
        progress(done, said["bytes"])

    files = []
    for shard, name in zip(shards, names, strict=True):
        index = beside(name, ".idx")
        write_index(partial(index), parameters.dtype, shard.documents, functools.partial(lengths, parameters, shard))
        files.append(file_of(beside(name, ".bin"), [sums[part] for part in parts(parameters, shard)]))
        files.append(file_of(index))
    manifest = Manifest(
        kind="tokens",
        version=__version__,
        parameters=parameters.model_dump(mode="json"),
        facts=said,
        files=tuple(files),
    )
    finish(prefix, manifest)
    journal.end()
    return manifest


def _written(outputs: list[Path]) -> int:
    """Bytes that an earlier process left on the disk; one that was killed while it gave the names, under either."""
    both = [name for path in outputs for name in (path, partial(path))]
    return sum(path.stat().st_blocks * 512 for path in both if path.exists())


def _all(
    prefix: Path, parameters: Parameters, shards: list[Shard], known: dict[str, int], workers: int
) -> Iterator[Made]:
    """Every part made."""
    parameters.token_table()  # once, before processes are forked
    tasks = (
        (shard, [(part, known.get(part.name)) for part in some])
        for shard in shards
        for some in _in_turn(parts(parameters, shard))
    )
    return chain.from_iterable(in_order(functools.partial(make, prefix, parameters), tasks, workers))


def _in_turn(every: list[Part]) -> Iterator[list[Part]]:
    """What one process makes at a time."""
    return (every[start : start + AT_ONCE] for start in range(0, len(every), AT_ONCE))


def default_workers() -> int:
    """The cores that this process may use, at most eight: more of them wait for the disk."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)
