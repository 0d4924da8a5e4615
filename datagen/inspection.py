"""Inspect Megatron data sets and JSON lines from any source, and files that only their manifest describes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy

from benchrun.errors import UserError
from datagen.indexed import Index, read_index, token_blocks
from datagen.manifest import damage, load
from datagen.output import beside
from datagen.sampling import Ints

SUFFIXES = (".bin", ".idx", ".json", ".jsonl", ".npy")
LARGEST_TOKEN = 1 << 24
"""Larger numbers are not tokens of any vocabulary."""
HEAD = 16
"""Tokens or words of a document in a report."""


def prefix_of(path: Path) -> Path:
    """The PREFIX of a file of a data set, or ``path`` if it is the PREFIX itself."""
    if path.suffix not in SUFFIXES or any(beside(path, suffix).exists() for suffix in (".json", ".idx")):
        return path
    return path.with_name(path.name.removesuffix(path.suffix))


def check_manifest(*prefixes: Path) -> dict[str, Any]:
    """The manifest of the first prefix that has one, whether its files are intact, and the first fault."""
    path = next((path for path in (beside(prefix, ".json") for prefix in prefixes) if path.exists()), None)
    if path is None:
        return {"manifest": None, "intact": None, "fault": None}
    manifest = load(path)
    fault = damage(manifest, path.parent)
    return {"manifest": manifest.model_dump(mode="json", exclude={"files"}), "intact": fault is None, "fault": fault}


def no_document(number: int, documents: int, path: Path) -> UserError:
    """The error for a document number that is too large."""
    hint = f"the last document is {documents - 1}" if documents else "the data set is empty"
    return UserError(f"no document {number}", where=str(path), hint=hint)


def prefixes(path: Path) -> list[Path]:
    """The data sets at ``path``, which is a prefix, its .bin, .idx or .json, or the prefix of shards.

    UserError if there are none.
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
    """The report of the data sets at ``path``. UserError if they cannot be read or disagree with their indices."""
    names = prefixes(path)
    indices = [_index(prefix) for prefix in names]
    counts, digests = _count(names, indices)
    lengths = numpy.concatenate([index.lengths for index in indices])
    return {
        "schema_version": 1,
        "unit": "tokens",
        "files": [{"file": str(beside(name, ".bin")), "sha256": digests[name]} for name in names],
        "dtype": str(indices[0].dtype),
        "documents": sum(index.documents for index in indices),
        "sequences": len(lengths),
        "tokens": int(counts.sum()),
        "largest_token": int(numpy.flatnonzero(counts)[-1]) if counts.any() else None,
        "distinct_tokens": int((counts > 0).sum()),
        **_statistics(counts, lengths),
        "document": _document(names, indices, document),
        **check_manifest(prefix_of(path), names[0]),
    }


def _index(prefix: Path) -> Index:
    """The index of ``prefix``. UserError if the ``.bin`` does not have the tokens that it lists."""
    index, data = read_index(beside(prefix, ".idx")), beside(prefix, ".bin")
    if not data.exists():
        raise UserError("is missing", where=str(data))
    size, needed = data.stat().st_size, index.tokens * index.dtype.itemsize
    if size != needed:
        raise UserError(f"{size} bytes, but its index lists {index.tokens} tokens: {needed} bytes", where=str(data))
    ends = index.offsets + index.lengths.astype(numpy.int64) * index.dtype.itemsize
    wrong = numpy.flatnonzero((index.lengths < 0) | (index.offsets < 0) | (ends > size))
    if len(wrong):
        raise UserError(f"sequence {wrong[0]} lies outside of {data.name}", where=str(beside(prefix, ".idx")))
    return index


def _count(names: list[Path], indices: list[Index]) -> tuple[Ints, dict[Path, str]]:
    """The number of occurrences of each token [largest token + 1], and the SHA-256 of each ``.bin``."""
    counts, digests = numpy.zeros(0, dtype=numpy.int64), {}
    for prefix, index in zip(names, indices, strict=True):
        digest = hashlib.sha256()
        for tokens in token_blocks(beside(prefix, ".bin"), index.dtype):
            digest.update(tokens)  # type: ignore[arg-type]
            if tokens.dtype.kind == "f" or tokens.min() < 0 or tokens.max() > LARGEST_TOKEN:
                raise UserError("contains numbers that are not tokens", where=str(beside(prefix, ".bin")))
            block = numpy.bincount(tokens, minlength=len(counts))
            block[: len(counts)] += counts
            counts = block
        digests[prefix] = digest.hexdigest()
    return counts, digests


def _document(names: list[Path], indices: list[Index], number: int) -> dict[str, Any] | None:
    """Number, length and first tokens of a document; the number counts over all shards. None if there are none."""
    first = 0
    for prefix, index in zip(names, indices, strict=True):
        place, documents = number - first, len(index.lengths)
        if place < documents:
            length, offset = int(index.lengths[place]), int(index.offsets[place])
            tokens = numpy.fromfile(beside(prefix, ".bin"), index.dtype, min(length, HEAD), offset=offset)
            return {"number": number, "length": length, "head": tokens.tolist()}
        first += documents
    if number == 0:
        return None
    raise no_document(number, first, names[0])


def inspect_lines(path: Path, document: int = 0) -> dict[str, Any]:
    """The report of the records in ``path`` and the words in their texts. UserError names a line that is no record."""
    digest, counts, sizes, shown = hashlib.sha256(), Counter[str](), [], None
    with path.open("rb") as file:
        for number, line in enumerate(file):
            digest.update(line)
            words = _words(line, f"{path}:{number + 1}")
            counts.update(words)
            sizes.append(len(words))
            if number == document:
                shown = {"number": number, "length": len(words), "head": words[:HEAD]}
    if shown is None and document:
        raise no_document(document, len(sizes), path)
    return {
        "schema_version": 1,
        "unit": "words",
        "files": [{"file": str(path), "sha256": digest.hexdigest()}],
        "documents": len(sizes),
        "words": sum(sizes),
        "distinct_words": len(counts),
        **_statistics(numpy.array(list(counts.values()), numpy.int64), numpy.array(sizes, numpy.int64)),
        "document": shown,
        **check_manifest(prefix_of(path)),
    }


def inspect_manifest(prefix: Path) -> dict[str, Any]:
    """The report of packed data and tokenizers: the manifest, and whether its files are intact."""
    checked = check_manifest(prefix)
    if checked["manifest"] is None:
        raise UserError("no data set", where=str(prefix), hint="give the PREFIX of its files, or a tokenizer directory")
    return {"schema_version": 1, "unit": None, "files": [], **checked}


def _words(line: bytes, where: str) -> list[str]:
    """The words of a record: of its ``messages`` if it has them, else of its fields. UserError if it is malformed."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise UserError("not a JSON object", where=where)
    texts = [text for key, text in record.items() if isinstance(text, str) and key != "category"]
    if isinstance(record.get("messages"), list):
        texts = [str(message.get("content", "")) for message in record["messages"] if isinstance(message, dict)]
    return " ".join(texts).split()


def _statistics(counts: Ints, lengths: Ints) -> dict[str, Any]:
    """Entropy of a single unit in bits, from the count of each; quantiles and histogram of the lengths of documents."""
    share = counts[counts > 0] / max(counts.sum(), 1)
    entropy = round(float(-(share * numpy.log2(share)).sum()) + 0.0, 4)
    if not len(lengths):
        return {"entropy_bits": entropy, "length": None, "histogram": []}
    p5, median, p95 = numpy.percentile(lengths, [5, 50, 95]).tolist()
    mean, least, most = round(float(lengths.mean()), 2), int(lengths.min()), int(lengths.max())
    powers = numpy.frexp(numpy.maximum(lengths, 1).astype(float))[1] - 1
    return {
        "entropy_bits": entropy,
        "length": {"mean": mean, "min": least, "p5": p5, "median": median, "p95": p95, "max": most},
        "histogram": [
            {"from": 1 << power, "to": (2 << power) - 1, "documents": int((powers == power).sum())}
            for power in range(powers.min(), powers.max() + 1)
        ],
    }
