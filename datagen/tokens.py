"""Megatron data sets of random or learnable tokens: any process can make any part of a
file, in any order.

The tokens of a shard are one long sequence, made in independent chunks. The lengths of
its documents are made in blocks; the last token of each document is the end-of-document
token. So any process can make any part of a file at any time, and memory does not grow
with the data.

Learnable tokens follow a rule: a falling loss proves that training works, and the
lowest possible loss is known. With probability 3/4 a token is its predecessor plus one
(modulo the vocabulary); else it is drawn from the distribution. A model that has learnt
the rule still cannot predict the draws: their entropy is the floor of the loss.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from functools import partial as bind
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from zlib import crc32

import numpy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from .direct import write
from .indexed import DOCUMENT_BYTES, LONGEST, write_index
from .output import (
    PART_BYTES,
    Frozen,
    Journal,
    Lengths,
    Manifest,
    Progress,
    Seed,
    beside,
    make_once,
    partial,
)
from .sampling import (
    Ints,
    TokenTable,
    draw_lengths,
    draw_tokens,
    length_table,
    row_pairs,
    stream,
    token_table,
)
from .workers import in_order

CHUNK = 1 << 16
"""Tokens made at a time: few enough for the processor's cache, many enough to keep
numpy's calls few."""
ROWS = 16
"""Rows of ``CHUNK`` tokens in each of the two tables of a stream of bits; a block has
one chunk per pair of rows."""
JUMP = 0.25
"""Probability that a learnable token is drawn."""
LENGTHS = 1 << 16
"""Documents per stream of bits."""
TOKENS, JUMPS, DOCUMENTS = range(3)
"""Purposes of streams of bits."""


class Parameters(Frozen):
    """Parameters that define the bytes of a data set; the command line has an option
    for each."""

    tokens: int = Field(gt=0, le=10**15, description="Number of tokens, e.g. 1e9.")
    vocab_size: int = Field(
        ge=3, le=1 << 24, description="Size with the end-of-document token, which is the last one."
    )
    seed: Seed = Field(default=1, description="Seed of the tokens and lengths.")
    documents: Lengths = Field(
        default="lognormal", description="Distribution of the lengths of documents."
    )
    mean_length: int = Field(
        default=1024, gt=0, le=LONGEST // 1000, description="Mean tokens per document."
    )
    distribution: Literal["uniform", "zipf"] = Field(
        default="zipf", description="Distribution of the tokens."
    )
    exponent: float = Field(
        default=1.1, ge=0, le=8, description="zipf: P(token t) ~ (t + 1)^-exponent."
    )
    learnable: bool = Field(
        default=False, description="Tokens follow a rule: the loss must fall to a known floor."
    )
    shards: int = Field(
        default=1, gt=0, le=100_000, description="Number of files: PREFIX_00000.bin and so on."
    )

    @model_validator(mode="after")
    def _enough(self) -> "Parameters":
        if self.shards > self.tokens:
            raise ValueError(
                f"{self.shards} shards of {self.tokens} tokens: at most one shard per token"
            )
        return self

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The dtype of a token in the file."""
        return numpy.dtype("uint16" if self.vocab_size < 65500 else "int32")  # as Megatron chooses

    @property
    def index_bytes(self) -> int:
        """Approximate bytes of the indices of all shards, from the mean length of a
        document."""
        return DOCUMENT_BYTES * (self.tokens // self.mean_length + self.shards)

    def token_table(self) -> TokenTable:
        """The table that tokens are drawn from; it excludes the end-of-document token."""
        return token_table(self.distribution, self.exponent, self.vocab_size - 1)

    def floor_loss(self) -> float:
        """The mean loss, in nats per token, of a model that has learnt the distribution
        and the rule."""
        mean = float(length_table(self.documents, self.mean_length).mean())
        return floor_loss(self.token_table().probabilities, mean, learnable=self.learnable)


class Shard(NamedTuple):
    """One pair of ``.bin`` and ``.idx``."""

    number: int
    tokens: int
    documents: int
    starts: tuple[int, ...]
    """The first token of each block of documents."""


def plan(parameters: Parameters) -> Iterator[Shard]:
    """The shards; their sizes differ by one token at most."""
    share, remainder = divmod(parameters.tokens, parameters.shards)
    for number in range(parameters.shards):
        tokens = share + (number < remainder)
        starts = [0]
        ends = _ends(parameters, number, 0)
        while starts[-1] + int(ends[-1]) < tokens:
            starts.append(starts[-1] + int(ends[-1]))
            ends = _ends(parameters, number, len(starts) - 1)
        last = int(numpy.searchsorted(ends, tokens - starts[-1]))
        yield Shard(number, tokens, (len(starts) - 1) * LENGTHS + last + 1, tuple(starts))


@lru_cache(maxsize=4)
def _ends(parameters: Parameters, shard: int, block: int) -> Ints:
    """[LENGTHS]: where each document of a block ends, in tokens from the beginning of
    the block."""
    table = length_table(parameters.documents, parameters.mean_length)
    return draw_lengths(table, stream(parameters.seed, shard, DOCUMENTS, block), LENGTHS).cumsum()


def documents(parameters: Parameters, shard: Shard) -> Iterator[tuple[Ints, Ints]]:
    """First token and length of each document of a shard, in blocks; the last document
    takes the remaining tokens."""
    for block, start in enumerate(shard.starts):
        ends = start + _ends(parameters, shard.number, block)[: shard.documents - block * LENGTHS]
        starts = numpy.append(start, ends[:-1])
        yield starts, ends.clip(max=shard.tokens) - starts


def _last_tokens(parameters: Parameters, shard: Shard, first: int, after: int) -> Ints:
    """The tokens that end a document, among those from ``first`` to ``after``."""
    places = [numpy.arange(shard.tokens, after + 1)]
    for block in range(
        bisect_right(shard.starts, first) - 1, bisect_right(shard.starts, after - 1)
    ):
        ends = _ends(parameters, shard.number, block)
        start = shard.starts[block]
        low, high = numpy.searchsorted(ends, (first - start, after - start), side="right")
        places.append(start + ends[low:high])
    return numpy.concatenate(places) - 1


def _bits(parameters: Parameters, shard: Shard, purpose: int, chunk: int) -> Ints:
    """The random bits of a chunk, 64-bit words."""
    block, pair = divmod(chunk, ROWS * ROWS)
    words = CHUNK // 8 if purpose == JUMPS else CHUNK // 2
    first, second = row_pairs(parameters.seed, shard.number, purpose, block, rows=ROWS, words=words)
    return cast("Ints", first[pair // ROWS] ^ second[pair % ROWS])


def fill(parameters: Parameters, shard: Shard, first: int, out: Ints) -> None:
    """Put the tokens from ``first`` on (a multiple of ``CHUNK``) into ``out`` [n]."""
    eod = parameters.vocab_size - 1
    table = parameters.token_table()
    for start in range(0, len(out), CHUNK):
        here = drawn = out[start : start + CHUNK]
        chunk = (first + start) // CHUNK
        bits = _bits(parameters, shard, TOKENS, chunk).view(numpy.uint32)
        if parameters.learnable:
            places = jumps(_bits(parameters, shard, JUMPS, chunk).view(numpy.uint8)[: len(here)])
            drawn = here[: len(places)]
        draw_tokens(table, bits[: len(drawn)], drawn)
        if parameters.learnable:
            follow(drawn, places, eod, here)
    out[_last_tokens(parameters, shard, first, first + len(out)) - first] = eod


def jumps(bits: NDArray[numpy.uint8]) -> Ints:
    """The places of the drawn tokens, from a random byte per token in ``bits`` [n]; the
    first token is always drawn."""
    jump = bits < int(JUMP * 256)
    jump[0] = True
    return numpy.flatnonzero(jump)


def follow(drawn: Ints, places: Ints, count: int, out: Ints) -> None:
    """Put ``drawn`` at its ``places`` in ``out`` [n] and count upwards between them,
    modulo ``count``."""
    n = len(out)
    line = numpy.repeat(
        drawn.astype(numpy.int32) - places.astype(numpy.int32), numpy.diff(places, append=n)
    )
    line += numpy.arange(n, dtype=numpy.int32)
    # line % count: numpy's // by a scalar is a multiplication, its % is a slow
    # division.
    numpy.subtract(line, line // numpy.int32(count) * numpy.int32(count), out=out, casting="unsafe")


def floor_loss(
    probabilities: NDArray[numpy.float64], mean_length: float, *, learnable: bool
) -> float:
    """The mean loss, in nats per token, of a model that knows how the tokens are drawn.

    It assumes that a document may end at any token with equal probability; predictable
    (fixed) lengths allow a slightly lower loss. So does attention across the end of a
    document, because the rule continues there: the first token of a document then costs
    two or three nats less, 0.15 % of the loss for documents of 1024 tokens, 7 % for 16.
    """
    draw = float(_information(probabilities).sum())
    inside = _rule_entropy(probabilities) if learnable else draw
    end = 1 / mean_length
    if end == 1:
        return 0.0
    after_token = (1 - end) * (inside - numpy.log(1 - end)) - end * numpy.log(end)
    return float((1 - end) * after_token + end * draw)


def _rule_entropy(p: NDArray[numpy.float64]) -> float:
    """Entropy of the next token given its predecessor, in nats."""
    drawn = JUMP * p
    stay = 1 - JUMP
    # Frequency of each token as a predecessor: pi[t] = drawn[t] + stay pi[t - 1],
    # modulo the vocabulary.
    turn = numpy.exp(-2j * numpy.pi * numpy.arange(len(p) // 2 + 1) / len(p))
    before = numpy.fft.irfft(numpy.fft.rfft(drawn) / (1 - stay * turn), n=len(p))
    lucky = numpy.roll(drawn, -1)  # probability of drawing the predecessor plus one
    return float(
        numpy.sum(
            before * (_information(stay + lucky) + _information(drawn).sum() - _information(lucky))
        )
    )


def _information(p: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Contribution of each outcome to the entropy, in nats; a table of tokens has no
    probability of 0.
    """
    return -p * numpy.log(p)


class Part(NamedTuple):
    """Bytes of a shard that have one checksum."""

    path: Path
    shard: Shard
    start: int
    size: int
    crc: int | None
    """CRC-32 of the bytes that an interrupted command made, None if it did not."""


def make_tokens(
    prefix: Path, parameters: Parameters, workers: int, progress: Progress
) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises
    as :func:`make_once`."""
    outputs = []
    for number in range(parameters.shards):
        shard_prefix = prefix if parameters.shards == 1 else beside(prefix, f"_{number:05d}")
        outputs += [beside(shard_prefix, ".bin"), beside(shard_prefix, ".idx")]
    size = parameters.tokens * parameters.dtype.itemsize

    def make(journal: Journal) -> dict[str, Any]:
        parameters.token_table()  # cached before the processes are forked
        shards = list(plan(parameters))
        parts = {}
        for shard, path in zip(shards, outputs[::2], strict=True):
            shard_bytes = shard.tokens * parameters.dtype.itemsize
            for number, start in enumerate(range(0, shard_bytes, PART_BYTES)):
                name = f"{shard.number}:{number}"
                size_of_part = min(PART_BYTES, shard_bytes - start)
                parts[name] = Part(path, shard, start, size_of_part, journal.done.get(name))
        done = 0
        sums = in_order(bind(_write, parameters), parts.values(), workers)
        for (name, part), crc in zip(parts.items(), sums, strict=True):
            if crc != part.crc:
                journal.add(name, crc)
            journal.sums.setdefault(part.path, []).append(crc)
            done += part.size
            progress(done, size)
        for shard, path in zip(shards, outputs[1::2], strict=True):
            write_index(
                partial(path), parameters.dtype, shard.documents, bind(documents, parameters, shard)
            )
        return {
            "dtype": parameters.dtype.name,
            "eod": parameters.vocab_size - 1,
            "documents": sum(shard.documents for shard in shards),
            "bytes": size,
            "floor_loss": round(parameters.floor_loss(), 6),
        }

    return make_once(
        prefix, "tokens", parameters, outputs, make, size=size + parameters.index_bytes
    )


def _write(parameters: Parameters, part: Part) -> int:
    """Write the part, unless it is intact on the disk; returns its CRC-32."""

    def fill_bytes(place: int, memory: memoryview) -> None:
        fill(
            parameters,
            part.shard,
            place // parameters.dtype.itemsize,
            numpy.frombuffer(memory, parameters.dtype),
        )

    path = partial(part.path)
    if part.crc is not None and path.exists():
        with path.open("rb") as file:
            file.seek(part.start)
            if crc32(file.read(part.size)) == part.crc:
                return part.crc
    return write(path, part.start, part.size, fill_bytes)
