"""Make instruction data: blocks on several processes, appended in order, then packed if the format requires it.

Packing needs the length of every sample before it can write the first sequence. So the samples go to a spool file
first, and memory holds only their lengths.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial as bind
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from datagen.checksum import crc32
from datagen.manifest import Manifest
from datagen.output import Journal, Progress, beside, make_once, partial
from datagen.packing import first_fit_decreasing, packed, save
from datagen.sampling import Ints, stream
from datagen.sft import BLOCK, Parameters, lines, tokens
from datagen.tokenizer import load_tokenizer
from datagen.workers import in_order

ORDER = 104
"""Purpose of a stream of bits."""


def make_sft(
    prefix: Path, parameters: Parameters, tokenizer: Path | None, workers: int, progress: Progress
) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises as :func:`make_once`.

    ``tokenizer`` is the folder of the tokenizer in ``parameters``.
    """
    packing = parameters.format == "packed"
    outputs = [beside(prefix, suffix) for suffix in ((".npy", ".metadata.json") if packing else (".jsonl",))]
    eod = load_tokenizer(tokenizer).eos if tokenizer else (parameters.vocab_size or 0) - 1

    def make(journal: Journal) -> dict[str, Any]:
        facts: dict[str, Any] = {"samples": parameters.samples}
        if not packing:
            _append(partial(outputs[0]), journal, parameters, bind(lines, parameters), workers, progress)
            return facts
        spool = partial(beside(prefix, ".spool"))
        _append(spool, journal, parameters, bind(_spooled, parameters, tokenizer), workers, progress)
        facts |= _pack(spool, outputs, parameters, eod)
        spool.unlink()
        return facts

    # The parameters name tokenizer.json only: a model and its chat model may share it and differ in the eos_token.
    return make_once(prefix, "sft", parameters, outputs, make, fixed={"eod": eod} if tokenizer else {})


def _append(
    path: Path,
    journal: Journal,
    parameters: Parameters,
    block: Callable[[int], bytes],
    workers: int,
    progress: Progress,
) -> None:
    """Append every block in order, after the leading blocks that agree with the journal of an interrupted command."""
    first, blocks = 0, -(-parameters.samples // BLOCK)
    with path.open("r+b" if path.exists() else "w+b") as file:
        end = 0
        with suppress(ValueError):  # a failing disk altered this line: the rest is not used
            for name, checksum in journal.done.items():
                number, size = map(int, name.split(":"))
                if number != first or crc32(file.read(size)) != checksum:
                    break
                first, end = first + 1, end + size
        file.truncate(end)
        file.seek(end)
        for number, data in enumerate(in_order(block, range(first, blocks), workers), first):
            file.write(data)
            file.flush()
            journal.add(f"{number}:{len(data)}", crc32(data))
            progress(file.tell(), file.tell() * blocks // (number + 1))


def _spooled(parameters: Parameters, tokenizer: Path | None, number: int) -> bytes:
    """A block of the spool, int32: number of samples, their sizes, prompt sizes, cut flags and tokens."""
    block = tokens(parameters, number, load_tokenizer(tokenizer) if tokenizer else None)
    return numpy.concatenate([[len(block.sizes)], *block]).astype(numpy.int32).tobytes()


def _read(path: Path) -> tuple[NDArray[numpy.int32], Ints]:
    """The spool, and four columns: size, prompt size, cut flag of each sample, and the place of its first token."""
    data = numpy.memmap(path, dtype=numpy.int32, mode="r")
    blocks, place = [], 0
    while place < len(data):
        count = int(data[place])
        columns = data[place + 1 : place + 1 + 3 * count].reshape(3, count).astype(numpy.int64)
        ends = place + 1 + 3 * count + numpy.cumsum(columns[0])
        blocks.append(numpy.vstack([columns, ends - columns[0]]))
        place = int(ends[-1])
    return data, numpy.hstack(blocks)


def _pack(spool: Path, outputs: list[Path], parameters: Parameters, eod: int) -> dict[str, Any]:
    """Write the packed sequences and NeMo's metadata; returns the facts of the manifest."""
    capacity = parameters.seq_length or 0
    data, columns = _read(spool)
    sizes, prompts, cut, _ = columns

    def sequence(samples: Ints) -> dict[str, list[int]]:
        rows = columns[:, samples].T.tolist()
        return packed((data[place : place + size].tolist(), prompt) for size, prompt, _, place in rows)

    # A sample of n tokens has n - 1 inputs, each with the next token as its label.
    packs = first_fit_decreasing(sizes - 1, capacity)
    counts, filled = numpy.bincount(packs), numpy.bincount(packs, weights=sizes - 1)
    members = numpy.split(numpy.argsort(packs, kind="stable"), numpy.cumsum(counts)[:-1])
    # First fit puts long samples into the first packs: shuffle, for readers that do not.
    order = numpy.argsort(stream(parameters.seed, ORDER)(len(members)), kind="stable")
    with partial(outputs[0]).open("wb") as file:
        save(file, len(members), (sequence(members[pack]) for pack in order))
    metadata = {  # the keys that NeMo's own preparation writes; lengths in inputs, efficiency in percent
        "dataset_max_seqlen": int(sizes.max()) - 1,
        "max_samples_per_bin": int(counts.max()),
        "packing_factor": round(len(packs) / len(filled), 2),
        "packing_efficiency": round(float(filled.mean()) / capacity * 100, 2),
        "pack_size": capacity,
        "min_packed_seqlen": int(filled.min()),
    }
    partial(outputs[1]).write_text(json.dumps([metadata]) + "\n")
    return {
        "sequences": len(members),
        "tokens": int(sizes.sum()),
        "answer_tokens": int(sizes.sum() - prompts.sum()),
        "cut_samples": int(cut.sum()),
        "eod": eod,
        **metadata,
    }
