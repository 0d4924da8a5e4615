"""Megatron indexed data sets of random or learnable tokens: what a data set is, and how its parts are made.

The tokens of a shard are one long row, made in chunks, each without the others; documents are a row of lengths, made in
blocks, laid over it. The last token of a document is the end-of-document token. So any part of a file can be made by
any process at any time, and memory does not grow with the data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy
from pydantic import BaseModel, ConfigDict, Field, model_validator

from datagen.checksum import crc32
from datagen.direct import DirectWriter
from datagen.indexed import DOCUMENT_BYTES, LONGEST, dtype_of
from datagen.learnable import floor_loss, follow, jumps
from datagen.manifest import PART_BYTES
from datagen.output import beside, partial
from datagen.sampling import Ints, TokenDrawer, TokenTable, draw_lengths, length_table, row_pairs, stream, token_table

CHUNK = 1 << 16
"""Tokens in work at once: they stay in the processor's cache, and numpy's calls are few."""
ROWS = 16
"""A stream of bits gives two tables of so many rows of ``CHUNK``; the chunks of a block take their pairs in turn."""
LENGTHS = 1 << 16
"""Documents of a stream of bits."""
TOKENS, JUMPS, DOCUMENTS = range(3)
"""What a stream of bits is for."""


class Parameters(BaseModel):
    """What defines the bytes of a data set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: int = Field(gt=0, le=10**15)
    vocab_size: int = Field(ge=3, le=1 << 24)
    """With the end-of-document token, which is the last one."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    documents: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    mean_length: int = Field(default=1024, gt=0, le=LONGEST // 1000)
    distribution: Literal["uniform", "zipf"] = "zipf"
    exponent: float = Field(default=1.1, ge=0, le=8)
    learnable: bool = False
    shards: int = Field(default=1, gt=0, le=100_000)

    @model_validator(mode="after")
    def _enough(self) -> Parameters:
        if self.shards > self.tokens:
            raise ValueError(f"{self.shards} shards of {self.tokens} tokens: the most is one shard a token")
        return self

    @property
    def dtype(self) -> str:
        """Of a token in the file."""
        return dtype_of(self.vocab_size)

    @property
    def bytes(self) -> int:
        """Of the tokens of all shards."""
        return self.tokens * numpy.dtype(self.dtype).itemsize

    @property
    def index_bytes(self) -> int:
        """Of the indices of all shards, about: as many documents as there are on average."""
        return DOCUMENT_BYTES * (self.tokens // self.mean_length + self.shards)

    def token_table(self) -> TokenTable:
        """What tokens are drawn from; never the end-of-document token."""
        return token_table(self.distribution, self.exponent, self.vocab_size - 1)

    def floor_loss(self) -> float:
        """The mean loss of a model that has learnt everything there is, in nats a token."""
        mean = float(length_table(self.documents, self.mean_length).mean())
        return floor_loss(self.token_table().probabilities, mean, learnable=self.learnable)


class Shard(NamedTuple):
    """One pair of ``.bin`` and ``.idx``."""

    number: int
    tokens: int
    documents: int
    starts: tuple[int, ...]
    """The first token of each block of lengths."""


class Part(NamedTuple):
    """As much of a file as one checksum covers."""

    shard: int
    number: int

    @property
    def name(self) -> str:
        """In the journal."""
        return f"{self.shard}:{self.number}"


class Made(NamedTuple):
    """A part that is written."""

    part: Part
    crc32: int
    bytes: int


def prefix_of(prefix: Path, parameters: Parameters, shard: int) -> Path:
    """The data set at ``prefix``, or its shard of this number."""
    return prefix if parameters.shards == 1 else beside(prefix, f"_{shard:05d}")


def plan(parameters: Parameters) -> list[Shard]:
    """The shards, of equal size but for a token."""
    share, more = divmod(parameters.tokens, parameters.shards)
    return [_shard(parameters, number, share + (number < more)) for number in range(parameters.shards)]


def _shard(parameters: Parameters, number: int, tokens: int) -> Shard:
    starts = [0]
    while starts[-1] < tokens:
        starts.append(starts[-1] + int(_lengths(parameters, number, len(starts) - 1).sum()))
    ends = starts[-2] + _lengths(parameters, number, len(starts) - 2).cumsum()
    documents = (len(starts) - 2) * LENGTHS + int(numpy.searchsorted(ends, tokens)) + 1
    return Shard(number, tokens, documents, tuple(starts[:-1]))


@lru_cache(maxsize=4)
def _lengths(parameters: Parameters, shard: int, block: int) -> Ints:
    table = length_table(parameters.documents, parameters.mean_length)
    return draw_lengths(table, stream(parameters.seed, shard, DOCUMENTS, block), LENGTHS)


def lengths(parameters: Parameters, shard: Shard) -> Iterator[Ints]:
    """The lengths of the documents of a shard, in blocks; what is left of the tokens is the last one."""
    for block, start in enumerate(shard.starts):
        these = _lengths(parameters, shard.number, block)
        if block == len(shard.starts) - 1:
            these = these[: shard.documents - block * LENGTHS].copy()
            these[-1] = shard.tokens - start - int(these[:-1].sum())
        yield these


@lru_cache(maxsize=4)
def _last_tokens(parameters: Parameters, shard: int, block: int) -> Ints:
    """Of each document of a block of lengths, counted from the block's first token."""
    return _lengths(parameters, shard, block).cumsum() - 1


def _ends(parameters: Parameters, shard: Shard, first: int, after: int) -> Ints:
    """The places of the tokens from ``first`` to ``after`` that end a document."""
    found = [numpy.arange(shard.tokens - 1, after)]
    for block in range(bisect_right(shard.starts, first) - 1, bisect_right(shard.starts, after - 1)):
        places, start = _last_tokens(parameters, shard.number, block), shard.starts[block]
        low, high = numpy.searchsorted(places, (first - start, after - start))
        found.append(start + places[low:high])
    return numpy.concatenate(found)


@lru_cache(maxsize=2)
def _row_pairs(seed: int, shard: int, purpose: int, block: int) -> tuple[Ints, Ints]:
    bytes_a_token = 1 if purpose == JUMPS else 4
    return row_pairs(seed, shard, purpose, block, rows=ROWS, words=CHUNK * bytes_a_token // 8)


def _bits(parameters: Parameters, shard: Shard, purpose: int, chunk: int, out: Ints) -> None:
    """The random bits of a chunk into ``out`` [as many words as a row has]."""
    block, pair = divmod(chunk, ROWS * ROWS)
    first, second = _row_pairs(parameters.seed, shard.number, purpose, block)
    numpy.bitwise_xor(first[pair // ROWS], second[pair % ROWS], out=out)


@lru_cache(maxsize=1)
def _drawer(parameters: Parameters, chunk: int) -> TokenDrawer:
    return TokenDrawer(parameters.token_table(), chunk)


@lru_cache(maxsize=2)
def _kept(words: int) -> Ints:
    """Memory for so many words, always the same: fresh one costs a page fault every 4 KB."""
    return numpy.empty(words, numpy.uint64)


def fill(parameters: Parameters, shard: Shard, first: int, out: Ints) -> None:
    """Put the tokens from ``first`` on (a multiple of ``CHUNK``) into ``out`` [n]."""
    eod = parameters.vocab_size - 1
    drawer = _drawer(parameters, CHUNK)
    bits, jumping = _kept(CHUNK // 2), _kept(CHUNK // 8)
    for start in range(0, len(out), CHUNK):
        here = out[start : start + CHUNK]
        chunk = (first + start) // CHUNK
        _bits(parameters, shard, TOKENS, chunk, bits)
        if not parameters.learnable:
            drawer.draw(bits.view(numpy.uint32)[: len(here)], here)
            continue
        _bits(parameters, shard, JUMPS, chunk, jumping)
        places = jumps(jumping.view(numpy.uint8)[: len(here)])
        drawn = here[: len(places)]
        drawer.draw(bits.view(numpy.uint32)[: len(drawn)], drawn)
        follow(drawn, places, eod, here)
    out[_ends(parameters, shard, first, first + len(out)) - first] = eod


def parts(parameters: Parameters, shard: Shard) -> list[Part]:
    """Of one shard."""
    size = shard.tokens * numpy.dtype(parameters.dtype).itemsize
    return [Part(shard.number, number) for number in range(-(-size // PART_BYTES))]


def make(prefix: Path, parameters: Parameters, task: tuple[Shard, list[tuple[Part, int | None]]]) -> list[Made]:
    """Write some parts of a shard in their places, but those that are there already with the checksum that is known."""
    shard, wanted = task
    dtype = numpy.dtype(parameters.dtype)
    path = partial(beside(prefix_of(prefix, parameters, shard.number), ".bin"))

    def some(place: int, memory: memoryview) -> None:
        fill(parameters, shard, place // dtype.itemsize, numpy.frombuffer(memory, dtype))

    done = []
    with DirectWriter(path) as writer:
        for part, known in wanted:
            start = part.number * PART_BYTES
            size = min(PART_BYTES, shard.tokens * dtype.itemsize - start)
            if known is None or _on_disk(path, start, size) != known:
                known = writer.write(start, size, some)
            done.append(Made(part, known, size))
    return done


def _on_disk(path: Path, start: int, size: int) -> int:
    """The checksum of what is there; of nothing, if the file is not."""
    checksum = 0
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(start)
        for place in range(0, size, 1 << 22):
            checksum = crc32(file.read(min(1 << 22, size - place)), checksum)
    return checksum


def facts(parameters: Parameters, shards: list[Shard]) -> dict[str, Any]:
    """For the manifest."""
    return {
        "dtype": parameters.dtype,
        "eod": parameters.vocab_size - 1,
        "documents": sum(shard.documents for shard in shards),
        "bytes": parameters.bytes,
        "floor_loss": round(parameters.floor_loss(), 6),
    }
