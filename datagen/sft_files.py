"""Make a set of instruction data: blocks on several processes, appended in order; packed, if asked; the manifest.

Packing needs every sample's length before the first sequence can be written. So the samples go to a spool file first,
and memory holds their lengths only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial as bound
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy
from numpy.typing import NDArray

from benchrun.errors import UserError
from datagen import __version__
from datagen.checksum import crc32
from datagen.maker import Progress
from datagen.manifest import Manifest
from datagen.output import Journal, beside, file_of, finish, locked, machine_errors, made, partial
from datagen.packing import first_fit_decreasing, packed, save
from datagen.sampling import Ints, stream
from datagen.sft import BLOCK, Parameters, lines, tokens
from datagen.tokenizing import load_tokenizer
from datagen.workers import in_order

ORDER = 104
"""What a stream of bits is for."""


def make_sft(
    prefix: Path, parameters: Parameters, tokenizer: Path | None, workers: int, progress: Progress
) -> tuple[Manifest, bool]:
    """The data set at ``prefix``, and whether it had to be made. What an earlier process left unfinished is continued.

    ``tokenizer``: the folder of the one that ``parameters`` names. UserError if something else is there; MachineError
    if the machine does not let it be written.
    """
    said = parameters.model_dump(mode="json")
    with machine_errors(prefix), locked(prefix):
        # Not in the file that the parameters name: a model and its chat model may differ in nothing else.
        eos = load_tokenizer(tokenizer).eos if tokenizer else None
        if there := made(prefix, "sft", said):
            if eos not in (None, there.facts.get("eod")):
                differ = f"eos_token {there.facts.get('eod')} instead of {eos}"
                where = str(beside(prefix, ".json"))
                raise UserError(f"another data set: {differ}", where=where, hint="choose another --output")
            return there, False
        packing = parameters.format == "packed"
        outputs = [beside(prefix, end) for end in ((".npy", ".metadata.json") if packing else (".jsonl",))]
        journal = Journal(prefix, "sft", said if eos is None else {**said, "eos_token": eos}, outputs)
        rows = beside(prefix, ".spool") if packing else outputs[0]
        function = bound(_spooled, parameters, tokenizer) if packing else bound(lines, parameters)
        _append(partial(rows), journal, -(-parameters.samples // BLOCK), function, workers, progress)
        facts: dict[str, Any] = {"samples": parameters.samples}
        if packing:
            facts |= _pack(partial(rows), outputs, parameters, tokenizer)
            partial(rows).unlink()
        files = tuple(file_of(path) for path in outputs)
        manifest = Manifest(kind="sft", version=__version__, parameters=said, facts=facts, files=files)
        finish(prefix, manifest)
        journal.end()
        return manifest, True


def _append(
    path: Path, journal: Journal, blocks: int, function: Callable[[int], bytes], workers: int, progress: Progress
) -> None:
    """Every block behind the other; those that an earlier process left whole are kept."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        first = _whole(file, journal)
        for number, data in enumerate(in_order(function, range(first, blocks), workers), first):
            file.write(data)
            file.flush()
            journal.add(f"{number}:{len(data)}", crc32(data))
            progress(file.tell(), file.tell() * blocks // (number + 1))


def _whole(file: IO[bytes], journal: Journal) -> int:
    """How many blocks at the start of the file are as the journal says. What stands behind them is cut off."""
    number = place = 0
    with suppress(ValueError):  # a line that a failing disk altered: nothing behind it is trusted
        for name, checksum in journal.done.items():
            block, size = map(int, name.split(":"))
            if block != number or crc32(file.read(size)) != checksum:
                break
            number, place = number + 1, place + size
    file.truncate(place)
    file.seek(place)
    return number


def _spooled(parameters: Parameters, tokenizer: Path | None, number: int) -> bytes:
    """A block for the spool, int32: how many samples, their sizes, their prompts' sizes, whether cut, the tokens."""
    block = tokens(parameters, number, load_tokenizer(tokenizer) if tokenizer else None)
    parts = [numpy.array([len(block.sizes)]), block.sizes, block.prompts, block.cut, block.tokens]
    return numpy.concatenate(parts).astype(numpy.int32).tobytes()


class _Spool(NamedTuple):
    data: NDArray[numpy.int32]
    sizes: Ints
    prompts: Ints
    places: Ints
    """[samples]: where the tokens of each begin in ``data``."""
    cut: int


def _read(path: Path) -> _Spool:
    data = numpy.memmap(path, dtype=numpy.int32, mode="r")
    heads: list[tuple[Ints, ...]] = []
    place = cut = 0
    while place < len(data):
        count = int(data[place])
        sizes, prompts, cuts = numpy.array(data[place + 1 : place + 1 + 3 * count]).reshape(3, count)
        starts = place + 1 + 3 * count + numpy.cumsum(sizes, dtype=numpy.int64) - sizes
        heads.append((sizes, prompts, starts))
        place = int(starts[-1] + sizes[-1])
        cut += int(cuts.sum())
    sizes, prompts, starts = (numpy.concatenate(column) for column in zip(*heads, strict=True))
    return _Spool(data, sizes, prompts, starts, cut)


def _pack(rows: Path, outputs: list[Path], parameters: Parameters, tokenizer: Path | None) -> dict[str, Any]:
    """Write the packed sequences and what NeMo wants to know of them; returns the facts."""
    assert parameters.seq_length is not None
    spool = _read(rows)
    # A sample of n tokens has n - 1 inputs, each with the next token as its label.
    packs = first_fit_decreasing(spool.sizes - 1, parameters.seq_length)
    members = numpy.split(numpy.argsort(packs, kind="stable"), numpy.cumsum(numpy.bincount(packs))[:-1])
    # First fit puts the long samples into the first packs: a reader that does not shuffle should not see that.
    order = numpy.argsort(stream(parameters.seed, ORDER)(len(members)), kind="stable")
    with partial(outputs[0]).open("wb") as file:
        save(file, len(members), (_sequence(spool, members[pack]) for pack in order))
    metadata = _metadata(spool, packs, parameters.seq_length)
    partial(outputs[1]).write_text(json.dumps([metadata]) + "\n")
    return {
        "sequences": len(members),
        "tokens": int(spool.sizes.sum()),
        "answer_tokens": int(spool.sizes.sum() - spool.prompts.sum()),
        "cut_samples": spool.cut,
        "eod": load_tokenizer(tokenizer).eos if tokenizer else (parameters.vocab_size or 0) - 1,
        **metadata,
    }


def _sequence(spool: _Spool, samples: Ints) -> dict[str, list[int]]:
    columns = (column[samples].tolist() for column in (spool.places, spool.sizes, spool.prompts))
    rows = zip(*columns, strict=True)
    return packed((spool.data[place : place + size].tolist(), prompt) for place, size, prompt in rows)


def _metadata(spool: _Spool, packs: Ints, seq_length: int) -> dict[str, Any]:
    """The keys of NeMo's own preparation; lengths in inputs, efficiency in percent."""
    filled = numpy.bincount(packs, weights=spool.sizes - 1)
    return {
        "dataset_max_seqlen": int(spool.sizes.max()) - 1,
        "max_samples_per_bin": int(numpy.bincount(packs).max()),
        "packing_factor": round(len(packs) / len(filled), 2),
        "packing_efficiency": round(float(filled.mean()) / seq_length * 100, 2),
        "pack_size": seq_length,
        "min_packed_seqlen": int(filled.min()),
    }
