"""Make a data set of tokens: parts on several processes, the indices, the names, the manifest."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from benchrun.errors import MachineError
from datagen import __version__
from datagen.indexed import write_index
from datagen.manifest import Manifest
from datagen.output import Journal, beside, file_of, finish, locked, machine_errors, made, partial, room_for
from datagen.tokens import Parameters, Part, Shard, facts, lengths, make, parts, plan, prefix_of

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the bytes there will be."""
Made = tuple[Part, int, int]


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
    shards = plan(parameters)
    names = [prefix_of(prefix, parameters, shard.number) for shard in shards]
    outputs = [beside(name, suffix) for name in names for suffix in (".bin", ".idx")]
    said = facts(parameters, shards)
    written = sum(path.stat().st_blocks * 512 for path in map(partial, outputs) if path.exists())
    room_for(prefix, said["bytes"] + 20 * said["documents"] - written)
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


def _all(
    prefix: Path, parameters: Parameters, shards: list[Shard], known: dict[str, int], workers: int
) -> Iterator[Made]:
    """Every part made, in the order in which they are done."""
    todo = (
        (part, prefix, parameters, shard, known.get(part.name)) for shard in shards for part in parts(parameters, shard)
    )
    parameters.token_table()  # once, before processes are forked
    if workers == 1:
        yield from itertools.starmap(make, todo)
        return
    with ProcessPoolExecutor(workers) as pool:
        running: set[Future[Made]] = set()
        try:
            # A few parts ahead of each worker: all of them at once would be a list as long as the data.
            for arguments in todo:
                running.add(pool.submit(make, *arguments))
                if len(running) >= 2 * workers:
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
            yield from (future.result() for future in running)
        except BrokenProcessPool as error:
            hint = "was it killed for its memory? The same command goes on from where it stopped"
            raise MachineError("a worker process ended", where=str(prefix), hint=hint) from error
        finally:
            pool.shutdown(cancel_futures=True)


def default_workers() -> int:
    """The cores that this process may use, at most eight: more of them wait for the disk."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)
