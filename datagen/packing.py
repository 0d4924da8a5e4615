"""Packed sequences in the form that NeMo reads: which samples share a sequence, and the file they are written to."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import IO, Any

import numpy
from numpy.typing import NDArray

Places = NDArray[numpy.int64]

PROTOCOL = 3
"""Of pickle: the newest whose parts can be put behind each other."""


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


def save(file: IO[bytes], count: int, sequences: Iterable[dict[str, list[int]]]) -> None:
    """Write what ``numpy.save`` would of an array of ``count`` such dicts, holding only one of them at a time.

    The array's own part of the pickle is spelled out, so that it is the same from every numpy: numpy 1 and 2 both know
    these names, and Megatron-Bridge from 0.4 on refuses a file with any other.
    """
    header = {"descr": "|O", "fortran_order": False, "shape": (count,)}
    numpy.lib.format.write_array_header_1_0(file, header)
    array = (_named("numpy.core.multiarray", "_reconstruct"), _named("numpy", "ndarray"), _plain((0,)), _plain(b"b"))
    dtype = (_named("numpy", "dtype"), _plain(("O",)), pickle.REDUCE)
    file.write(pickle.PROTO + bytes([PROTOCOL]) + b"".join(array) + pickle.TUPLE3 + pickle.REDUCE)
    # Its state: version, shape, dtype, whether in Fortran's order, and the list of what it holds.
    file.write(pickle.MARK + _plain(1) + _plain((count,)) + b"".join(dtype) + pickle.NEWFALSE + pickle.EMPTY_LIST)
    for sequence in sequences:
        file.write(_plain(sequence) + pickle.APPEND)
    file.write(pickle.TUPLE + pickle.BUILD + pickle.STOP)


def _named(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _plain(value: object) -> bytes:
    """A value of Python's own types as a part of a pickle: without the protocol before it and the stop behind it."""
    return pickle.dumps(value, PROTOCOL)[2:-1]
