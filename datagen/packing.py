"""Packed sequences in the form that NeMo reads: which samples share a sequence, and the file they are written to."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy
from numpy.typing import NDArray

Places = NDArray[numpy.int64]


def first_fit_decreasing(sizes: NDArray[Any], capacity: int) -> Places:
    """[samples]: the pack of each sample, so that no pack's sizes add up to more than ``capacity``.

    The longest sample first, each into the first pack with room for it. Samples of one size are placed at once: first
    fit fills the first pack with as many as go in, then the next. No size may exceed ``capacity``.
    """
    packs = numpy.empty(len(sizes), dtype=numpy.int64)
    order = numpy.argsort(-sizes.astype(numpy.int64), kind="stable")
    distinct, counts = numpy.unique(sizes, return_counts=True)
    room = numpy.empty(0, dtype=numpy.int64)
    done = 0
    for size, count in zip(distinct[::-1].tolist(), counts[::-1].tolist(), strict=True):
        wanted = numpy.minimum(numpy.cumsum(room // size), count)
        left = count - (int(wanted[-1]) if len(wanted) else 0)
        each = capacity // size
        new = [each] * (left // each) + ([left % each] if left % each else [])
        taken = numpy.concatenate([numpy.diff(wanted, prepend=0), numpy.array(new, dtype=numpy.int64)])
        room = numpy.concatenate([room, numpy.full(len(new), capacity)]) - taken * size
        packs[order[done : done + count]] = numpy.repeat(numpy.arange(len(room)), taken)
        done += count
    return packs


def packed(samples: Iterable[tuple[list[int], int]]) -> dict[str, list[int]]:
    """One packed sequence of samples, each its tokens and how many of them are the prompt.

    ``loss_mask`` stands over the labels, as NeMo from 2.2 on and Megatron-Bridge read it: entry i is 1 if the token
    after token i is of the answer; they do not read the entry of a sample's last token. NeMo 2.1 and older read it as
    standing over the tokens, so there the last token of a prompt counts with the answer.
    """
    sequence: dict[str, list[int]] = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
    for tokens, prompt in samples:
        sequence["seq_start_id"].append(len(sequence["input_ids"]))
        sequence["input_ids"] += tokens
        sequence["loss_mask"] += [0] * (prompt - 1) + [1] * (len(tokens) - prompt + 1)
    return sequence


def save(file: IO[bytes], count: int, sequences: Iterator[dict[str, list[int]]]) -> None:
    """Write what ``numpy.save`` would of an array of ``count`` such dicts, holding only one of them at a time."""
    header = {"descr": "|O", "fortran_order": False, "shape": (count,)}
    numpy.lib.format.write_array_header_1_0(file, header)
    pickler = pickle.Pickler(file, protocol=4)
    # Remember nothing: the memory would grow with every list.
    pickler.fast = True
    pickler.dump(_Array(sequences))


class _Array:
    """Pickled as an array of objects, without numpy's private names, which differ between its releases."""

    def __init__(self, items: Iterator[Any]) -> None:
        self.items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return numpy.array, (_List(self.items), "O")


class _List:
    """Pickled as a list, item by item."""

    def __init__(self, items: Iterator[Any]) -> None:
        self.items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (), None, self.items
