"""What is in a Megatron data set, whoever made it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy

from benchrun.errors import UserError
from datagen.indexed import Index, blocks_of, read_index
from datagen.output import beside
from datagen.sampling import Ints
from datagen.summary import entropy, histogram, length, manifest_beside, prefix_of

HEAD_TOKENS = 16
LARGEST_TOKEN = 1 << 24
"""Larger numbers are no tokens of any vocabulary."""


def prefixes(path: Path) -> list[Path]:
    """The data sets that ``path`` names: a prefix, its .bin, .idx or .json, or the prefix of shards.

    UserError if there is none.
    """
    prefix = prefix_of(path)
    if beside(prefix, ".idx").exists():
        return [prefix]
    shards = sorted(prefix.parent.glob(f"{prefix.name}_[0-9][0-9][0-9][0-9][0-9].idx"))
    if shards:
        return [shard.with_suffix("") for shard in shards]
    unfinished = beside(prefix, ".journal").exists()
    hint = "unfinished: repeat the command that makes it" if unfinished else "give PREFIX of PREFIX.bin and PREFIX.idx"
    raise UserError("no data set", where=str(path), hint=hint)


def inspect_tokens(path: Path, document: int = 0) -> dict[str, Any]:
    """All that the files of ``path`` tell. UserError if they are no data set, or not as long as the index says."""
    found = prefixes(path)
    indices = [_index(prefix) for prefix in found]
    counts, digests = _pass(found, indices)
    lengths = numpy.concatenate([index.lengths for index in indices])
    return {
        "schema_version": 1,
        "unit": "tokens",
        "files": [
            {"file": str(beside(prefix, ".bin")), "sha256": digest}
            for prefix, digest in zip(found, digests, strict=True)
        ],
        "dtype": str(indices[0].dtype),
        "documents": sum(index.documents for index in indices),
        "sequences": len(lengths),
        "tokens": int(counts.sum()),
        "largest_token": int(numpy.flatnonzero(counts)[-1]) if counts.any() else None,
        "distinct_tokens": int((counts > 0).sum()),
        "entropy_bits": entropy(counts),
        "length": length(lengths),
        "histogram": histogram(lengths),
        "document": _document(found, indices, document),
        **manifest_beside(prefix_of(path), found[0]),
    }


def _index(prefix: Path) -> Index:
    """The index, once the ``.bin`` is known to be as long as it says."""
    index, data = read_index(beside(prefix, ".idx")), beside(prefix, ".bin")
    if not data.exists():
        raise UserError("is missing", where=str(data))
    size, needed = data.stat().st_size, index.tokens * index.dtype.itemsize
    if size != needed:
        raise UserError(f"{size} bytes, but its index counts {index.tokens} tokens: {needed} bytes", where=str(data))
    ends = index.offsets + index.lengths.astype(numpy.int64) * index.dtype.itemsize
    wrong = numpy.flatnonzero((index.lengths < 0) | (index.offsets < 0) | (ends > size))
    if len(wrong):
        raise UserError(f"sequence {wrong[0]} lies outside of {data.name}", where=str(beside(prefix, ".idx")))
    return index


def _pass(found: list[Path], indices: list[Index]) -> tuple[Ints, list[str]]:
    """How often each token occurs [largest token + 1], and the SHA-256 of each ``.bin``."""
    counts, digests = numpy.zeros(0, dtype=numpy.int64), []
    for prefix, index in zip(found, indices, strict=True):
        digest = hashlib.sha256()
        for tokens in blocks_of(beside(prefix, ".bin"), index.dtype):
            digest.update(tokens)  # type: ignore[arg-type]
            if tokens.dtype.kind == "f" or tokens.min() < 0 or tokens.max() > LARGEST_TOKEN:
                raise UserError("holds numbers that are no tokens", where=str(beside(prefix, ".bin")))
            here = numpy.bincount(tokens, minlength=len(counts))
            here[: len(counts)] += counts
            counts = here
        digests.append(digest.hexdigest())
    return counts, digests


def _document(found: list[Path], indices: list[Index], number: int) -> dict[str, Any] | None:
    """The first tokens of a document, counted over all shards."""
    left = number
    for prefix, index in zip(found, indices, strict=True):
        if left < len(index.lengths):
            length, offset = int(index.lengths[left]), int(index.offsets[left])
            head = min(length, HEAD_TOKENS)
            tokens = numpy.fromfile(beside(prefix, ".bin"), index.dtype, head, offset=offset)
            return {"number": number, "length": length, "head": tokens.tolist()}
        left -= len(index.lengths)
    if number == 0:
        return None
    raise UserError(f"there is no document {number}", where=str(found[0]), hint=f"they are 0 to {number - left - 1}")
