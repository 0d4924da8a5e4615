"""Packed sequences for NeMo: a spool of samples, which of them share a sequence, and
the file format.

Packing needs the length of every sample before it can write the first sequence. So the
samples go to a spool file first, and memory holds only their lengths.
"""

import json
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy
from numpy.typing import NDArray

from .sampling import Ints, stream

ORDER = 104
"""Purpose of a stream of bits."""
PROTOCOL = 3
"""Protocol of pickle: the newest without frames, so that pickled parts can be
concatenated."""


class Sample(NamedTuple):
    """A sample as tokens."""

    tokens: Ints
    """Tokens with the end-of-document token."""
    prompt: int
    """Number of these tokens that belong to the prompt."""
    cut: bool
    """Whether the sample was cut because it was longer than a sequence."""


def spool(samples: list[Sample]) -> bytes:
    """A block of the spool, int32: the size, prompt size, cut flag and tokens of each
    sample."""
    rows = []
    for tokens, prompt, cut in samples:
        rows.append(numpy.append((len(tokens), prompt, cut), tokens))
    return numpy.concatenate(rows).astype(numpy.int32).tobytes()


def _samples(data: NDArray[numpy.int32]) -> Iterator[tuple[int, int, int, int]]:
    """Size, prompt size and cut flag of each sample in the spool, and the place of its
    first token."""
    place = 0
    while place < len(data):
        size, prompt, cut = data[place : place + 3].tolist()
        yield size, prompt, cut, place + 3
        place += 3 + size


def pack(
    spool: Path, data_path: Path, metadata_path: Path, capacity: int, seed: int, eod: int
) -> dict[str, Any]:
    """Write sequences of ``capacity`` inputs and NeMo's metadata; returns the facts of
    the manifest."""
    data = numpy.memmap(spool, dtype=numpy.int32, mode="r")
    columns = numpy.fromiter(_samples(data), dtype=numpy.dtype((numpy.int64, 4))).T
    sizes, prompts, cut, _ = columns

    def sequence(samples: Ints) -> dict[str, list[int]]:
        rows = columns[:, samples].T.tolist()
        return packed(
            (data[place : place + size].tolist(), prompt) for size, prompt, _, place in rows
        )

    # A sample of n tokens has n - 1 inputs, each with the next token as its label.
    packs = first_fit_decreasing(sizes - 1, capacity)
    counts = numpy.bincount(packs)
    filled = numpy.bincount(packs, weights=sizes - 1)
    members = numpy.split(numpy.argsort(packs, kind="stable"), numpy.cumsum(counts)[:-1])
    # First fit puts long samples into the first packs: shuffle, for readers that do
    # not.
    order = numpy.argsort(stream(seed, ORDER)(len(members)), kind="stable")
    with data_path.open("wb") as file:
        save(file, len(members), (sequence(members[pack]) for pack in order))
    metadata = {  # the keys that NeMo's own preparation writes; lengths in inputs, efficiency in percent
        "dataset_max_seqlen": int(sizes.max()) - 1,
        "max_samples_per_bin": int(counts.max()),
        "packing_factor": round(len(packs) / len(filled), 2),
        "packing_efficiency": round(float(filled.mean()) / capacity * 100, 2),
        "pack_size": capacity,
        "min_packed_seqlen": int(filled.min()),
    }
    metadata_path.write_text(json.dumps([metadata]) + "\n", encoding="utf-8")
    return {
        "sequences": len(members),
        "tokens": int(sizes.sum()),
        "answer_tokens": int(sizes.sum() - prompts.sum()),
        "cut_samples": int(cut.sum()),
        "eod": eod,
        **metadata,
    }


def first_fit_decreasing(sizes: NDArray[Any], capacity: int) -> NDArray[numpy.int64]:
    """[samples]: the pack of each sample, such that the sizes in a pack sum to at most
    ``capacity``.

    Takes the longest sample first and puts each into the first pack with room for it.
    Samples of one size are placed together: first fit fills the first pack as far as it
    can, then the next. No size may exceed ``capacity``.
    """
    packs = numpy.empty(len(sizes), dtype=numpy.int64)
    order = numpy.argsort(-sizes.astype(numpy.int64), kind="stable")
    distinct, counts = numpy.unique(sizes, return_counts=True)
    room = numpy.empty(0, dtype=numpy.int64)
    done = 0
    for size, count in zip(distinct[::-1].tolist(), counts[::-1].tolist(), strict=True):
        placed = numpy.minimum(numpy.cumsum(room // size), count)
        unplaced = count - (int(placed[-1]) if len(placed) else 0)
        per_pack = capacity // size
        new = [per_pack] * (unplaced // per_pack)
        if unplaced % per_pack:
            new.append(unplaced % per_pack)
        taken = numpy.concatenate(
            [numpy.diff(placed, prepend=0), numpy.array(new, dtype=numpy.int64)]
        )
        room = numpy.concatenate([room, numpy.full(len(new), capacity)]) - taken * size
        packs[order[done : done + count]] = numpy.repeat(numpy.arange(len(room)), taken)
        done += count
    return packs


def packed(samples: Iterable[tuple[list[int], int]]) -> dict[str, list[int]]:
    """One packed sequence; each sample has its tokens and the number of tokens in its
    prompt.

    ``loss_mask`` refers to the labels, as NeMo 2.2 and later and Megatron-Bridge read
    it: entry i is 1 if the token after token i belongs to the answer; they ignore the
    entry of a sample's last token. NeMo 2.1 and older apply it to the tokens, so there
    the last token of a prompt counts as part of the answer.
    """
    sequence: dict[str, list[int]] = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
    for tokens, prompt in samples:
        sequence["seq_start_id"].append(len(sequence["input_ids"]))
        sequence["input_ids"] += tokens
        sequence["loss_mask"] += [0] * (prompt - 1) + [1] * (len(tokens) - prompt + 1)
    return sequence


def save(file: IO[bytes], count: int, sequences: Iterable[dict[str, list[int]]]) -> None:
    """Write the bytes of ``numpy.save`` for an array of ``count`` such dicts, with only
    one of them in memory.

    The pickle of the array is written by hand, so that it is the same with every numpy:
    numpy 1 and 2 both accept these names, and Megatron-Bridge 0.4 and later refuses a
    file with any other.
    """
    header = {"descr": "|O", "fortran_order": False, "shape": (count,)}
    numpy.lib.format.write_array_header_1_0(file, header)
    array = (
        _global("numpy.core.multiarray", "_reconstruct"),
        _global("numpy", "ndarray"),
        _plain((0,)),
        _plain(b"b"),
    )
    dtype = (_global("numpy", "dtype"), _plain(("O",)), pickle.REDUCE)
    file.write(pickle.PROTO + bytes([PROTOCOL]) + b"".join(array) + pickle.TUPLE3 + pickle.REDUCE)
    # The state of the array: version, shape, dtype, Fortran order, list of elements.
    file.write(
        pickle.MARK
        + _plain(1)
        + _plain((count,))
        + b"".join(dtype)
        + pickle.NEWFALSE
        + pickle.EMPTY_LIST
    )
    for sequence in sequences:
        file.write(_plain(sequence) + pickle.APPEND)
    file.write(pickle.TUPLE + pickle.BUILD + pickle.STOP)


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _plain(value: object) -> bytes:
    """The pickle of a value of a built-in type, without the leading protocol and the
    final stop."""
    return pickle.dumps(value, PROTOCOL)[2:-1]
