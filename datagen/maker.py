"""Make a data set of tokens: parts on several processes, then the indices and the manifest."""

from __future__ import annotations

from functools import partial as bind
from itertools import chain
from pathlib import Path

from datagen.indexed import write_index
from datagen.manifest import Manifest
from datagen.output import Journal, Progress, Result, beside, file_entry, make_once, partial
from datagen.tokens import Parameters, Part, lengths, make, parts, plan, shard_prefix
from datagen.workers import in_order

AT_ONCE = 4
"""Parts that a process makes without waiting for the disk: 256 MiB, which an interrupted process loses."""


def make_tokens(prefix: Path, parameters: Parameters, workers: int, progress: Progress) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises as :func:`make_once`."""

    def make_files(journal: Journal) -> Result:
        parameters.token_table()  # cached before the processes are forked
        shards = plan(parameters)
        tasks = (
            (shard, [(part, journal.done.get(part.name)) for part in every[start : start + AT_ONCE]])
            for shard in shards
            for every in [parts(parameters, shard)]
            for start in range(0, len(every), AT_ONCE)
        )
        sums: dict[Part, int] = {}
        done = 0
        for part, checksum in chain.from_iterable(in_order(bind(make, prefix, parameters), tasks, workers)):
            if journal.done.get(part.name) != checksum:
                journal.add(part.name, checksum)
            sums[part] = checksum
            done += part.size
            progress(done, parameters.bytes)

        files = []
        for shard in shards:
            data, index = (beside(shard_prefix(prefix, parameters, shard.number), end) for end in (".bin", ".idx"))
            write_index(partial(index), parameters.dtype, shard.documents, bind(lengths, parameters, shard))
            files += [file_entry(data, [sums[part] for part in parts(parameters, shard)]), file_entry(index)]
        facts = {
            "dtype": parameters.dtype,
            "eod": parameters.vocab_size - 1,
            "documents": sum(shard.documents for shard in shards),
            "bytes": parameters.bytes,
            "floor_loss": round(parameters.floor_loss(), 6),
        }
        return facts, files

    prefixes = [shard_prefix(prefix, parameters, number) for number in range(parameters.shards)]
    outputs = [beside(name, end) for name in prefixes for end in (".bin", ".idx")]
    size = parameters.bytes + parameters.index_bytes
    return make_once(prefix, "tokens", parameters, outputs, make_files, size=size)
