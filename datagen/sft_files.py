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
from typing import IO, Any

import numpy
from numpy.typing import NDArray

from datagen.checksum import crc32
from datagen.manifest import Manifest
from datagen.output import Journal, Progress, Result, beside, file_entry, make_once, partial
from datagen.packing import first_fit_decreasing, packed, save
from datagen.sampling import Ints, stream
from datagen.sft import BLOCK, Parameters, lines, tokens
from datagen.tokenizing import load_tokenizer
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
    function = bind(_spooled, parameters, tokenizer) if packing else bind(lines, parameters)

    def make(journal: Journal) -> Result:
        rows = partial(beside(prefix, ".spool") if packing else outputs[0])
        _append(rows, journal, -(-parameters.samples // BLOCK), function, workers, progress)
        facts: dict[str, Any] = {"samples": parameters.samples}
        if packing:
            facts |= _pack(rows, outputs, parameters, tokenizer)
            rows.unlink()
        return facts, [file_entry(path) for path in outputs]

    # The parameters name tokenizer.json only: a model and its chat model may share it and differ in the eos_token.
    fixed = {"eod": load_tokenizer(tokenizer).eos} if tokenizer else {}
    return make_once(prefix, "sft", parameters, outputs, make, fixed=fixed)


def _append(
    path: Path, journal: Journal, blocks: int, function: Callable[[int], bytes], workers: int, progress: Progress
) -> None:
    """Append every block in order, after the intact blocks of an interrupted command."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        first = _keep_intact(file, journal)
        for number, data in enumerate(in_order(function, range(first, blocks), workers), first):
            file.write(data)
            file.flush()
            journal.add(f"{number}:{len(data)}", crc32(data))
            progress(file.tell(), file.tell() * blocks // (number + 1))


def _keep_intact(file: IO[bytes], journal: Journal) -> int:
    """Truncate the file after the leading blocks that agree with the journal, and return their number."""
    number = place = 0
    with suppress(ValueError):  # a failing disk altered this line: the rest is not used
        for name, checksum in journal.done.items():
            block, size = map(int, name.split(":"))
            if block != number or crc32(file.read(size)) != checksum:
                break
            number, place = number + 1, place + size
    file.truncate(place)
    file.seek(place)
    return number


def _spooled(parameters: Parameters, tokenizer: Path | None, number: int) -> bytes:
    """A block of the spool, int32: number of samples, their sizes, prompt sizes, cut flags and tokens."""
    block = tokens(parameters, number, load_tokenizer(tokenizer) if tokenizer else None)
    columns = [numpy.array([len(block.sizes)]), block.sizes, block.prompts, block.cut, block.tokens]
    return numpy.concatenate(columns).astype(numpy.int32).tobytes()


def _read(path: Path) -> tuple[NDArray[numpy.int32], Ints, Ints, Ints, Ints]:
    """The spool, and for each sample its size, prompt size, cut flag and the place of its first token in the spool."""
    data = numpy.memmap(path, dtype=numpy.int32, mode="r")
    blocks: list[tuple[Ints, ...]] = []
    place = 0
    while place < len(data):
        count = int(data[place])
        sizes, prompts, cut = numpy.array(data[place + 1 : place + 1 + 3 * count]).reshape(3, count)
        places = place + 1 + 3 * count + numpy.cumsum(sizes, dtype=numpy.int64) - sizes
        blocks.append((sizes, prompts, cut, places))
        place = int(places[-1] + sizes[-1])
    sizes, prompts, cut, places = (numpy.concatenate(column) for column in zip(*blocks, strict=True))
    return data, sizes, prompts, cut, places


def _pack(spool: Path, outputs: list[Path], parameters: Parameters, tokenizer: Path | None) -> dict[str, Any]:
    """Write the packed sequences and NeMo's metadata; returns the facts of the manifest."""
    assert parameters.seq_length is not None
    data, sizes, prompts, cut, places = _read(spool)

    def sequence(samples: Ints) -> dict[str, list[int]]:
        rows = zip(*(column[samples].tolist() for column in (places, sizes, prompts)), strict=True)
        return packed((data[place : place + size].tolist(), prompt) for place, size, prompt in rows)

    # A sample of n tokens has n - 1 inputs, each with the next token as its label.
    packs = first_fit_decreasing(sizes - 1, parameters.seq_length)
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
        "packing_efficiency": round(float(filled.mean()) / parameters.seq_length * 100, 2),
        "pack_size": parameters.seq_length,
        "min_packed_seqlen": int(filled.min()),
    }
    partial(outputs[1]).write_text(json.dumps([metadata]) + "\n")
    return {
        "sequences": len(members),
        "tokens": int(sizes.sum()),
        "answer_tokens": int(sizes.sum() - prompts.sum()),
        "cut_samples": int(cut.sum()),
        "eod": load_tokenizer(tokenizer).eos if tokenizer else (parameters.vocab_size or 0) - 1,
        **metadata,
    }
