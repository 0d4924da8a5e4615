"""Inspect Megatron data sets and JSON lines from any source, and files that only their
manifest describes."""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy

from benchrun.errors import UserError

from .indexed import read_index
from .output import beside, damage, load
from .sampling import Ints

SUFFIXES = (".bin", ".idx", ".json", ".jsonl", ".npy")
LARGEST_TOKEN = 1 << 24
"""Limit of a token's number: larger ones are not tokens of any vocabulary."""
BLOCK = 1 << 20
"""Tokens in memory at a time."""
HEAD = 16
"""Tokens or words of a document in a report."""


def inspect(path: Path, document: int = 0) -> dict[str, Any]:
    """The report of the data at ``path``: a prefix, one of its files, the prefix of
    shards, or a tokenizer directory.

    ``document`` is the number of the document to show; it counts over all shards.
    UserError if the data cannot be read. If that is because they changed since they
    were made, the error is printed, and the report is that of the manifest.
    """
    prefix = path
    if path.is_dir():
        prefix = path / "manifest"
    elif path.suffix in SUFFIXES and not _is_prefix(path):
        prefix = path.with_suffix("")
    checked = _check_manifest(prefix)
    summary = {"schema_version": 1, "unit": None, "files": [], **checked}
    if checked["manifest"] and (path.is_dir() or beside(prefix, ".npy").exists()):
        return summary
    try:
        read = _inspect_lines if beside(prefix, ".jsonl").is_file() else _inspect_tokens
        return {**read(prefix, document), **checked}
    except UserError as error:
        if checked["intact"] is not False:
            raise
        sys.stderr.write(f"error: {error}\n")
        return summary


def _is_prefix(path: Path) -> bool:
    return beside(path, ".json").exists() or beside(path, ".idx").exists()


def _check_manifest(prefix: Path) -> dict[str, Any]:
    """The manifest of ``prefix`` if there is one, whether its files are intact, and the
    first fault."""
    path = beside(prefix, ".json")
    if not path.exists():
        return {"manifest": None, "intact": None, "fault": None}
    manifest = load(path)
    fault = damage(manifest, path.parent)
    return {
        "manifest": manifest.model_dump(mode="json", exclude={"files"}),
        "intact": fault is None,
        "fault": fault,
    }


def _inspect_tokens(prefix: Path, document: int) -> dict[str, Any]:
    indices = {beside(name, ".bin"): read_index(name) for name in _shards(prefix)}
    counts = numpy.zeros(0, dtype=numpy.int64)
    digests = {}
    head = []
    first = 0
    for path, index in indices.items():
        dtype = index.dtype
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while data := file.read(BLOCK * dtype.itemsize):
                digest.update(data)
                tokens = numpy.frombuffer(data, dtype)
                if dtype.kind == "f" or tokens.min() < 0 or tokens.max() > LARGEST_TOKEN:
                    raise UserError("contains numbers that are not tokens", where=path)
                block = numpy.bincount(tokens, minlength=len(counts))
                block[: len(counts)] += counts
                counts = block
        digests[path] = digest.hexdigest()
        place = document - first
        if 0 <= place < len(index.lengths):
            size = min(int(index.lengths[place]), HEAD)
            head = numpy.fromfile(path, dtype, size, offset=int(index.offsets[place])).tolist()
        first += len(index.lengths)
    lengths = numpy.concatenate([index.lengths for index in indices.values()])
    return {
        **_report(prefix, "tokens", digests, counts, lengths, document, head),
        "dtype": str(dtype),
        "documents": sum(index.documents for index in indices.values()),
        "sequences": len(lengths),
        "largest_token": int(numpy.flatnonzero(counts)[-1]) if counts.any() else None,
    }


def _shards(prefix: Path) -> list[Path]:
    """``prefix``, or the prefixes of its shards. UserError if there are none."""
    if beside(prefix, ".idx").exists():
        return [prefix]
    shards = sorted(prefix.parent.glob(f"{prefix.name}_[0-9][0-9][0-9][0-9][0-9].idx"))
    if shards:
        return [shard.with_suffix("") for shard in shards]
    unfinished = beside(prefix, ".journal").exists()
    hint = "give PREFIX of PREFIX.bin and PREFIX.idx"
    if unfinished:
        hint = "unfinished: repeat the command that makes it"
    raise UserError("no data set", where=prefix, hint=hint)


def _inspect_lines(prefix: Path, document: int) -> dict[str, Any]:
    """The report of the records and the words in their texts. UserError names a line
    that is no record."""
    path = beside(prefix, ".jsonl")
    digest = hashlib.sha256()
    counts = Counter[str]()
    sizes = []
    head = []
    with path.open("rb") as file:
        for number, line in enumerate(file):
            digest.update(line)
            words = _words(line, f"{path}:{number + 1}")
            counts.update(words)
            sizes.append(len(words))
            if number == document:
                head = words[:HEAD]
    often = numpy.array(list(counts.values()), numpy.int64)
    lengths = numpy.array(sizes, numpy.int64)
    return _report(prefix, "words", {path: digest.hexdigest()}, often, lengths, document, head)


def _words(line: bytes, where: str) -> list[str]:
    """The words of a record: of its ``messages`` if it has them, else of its fields.
    UserError if it is malformed."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise UserError("not a JSON object", where=where)
    words = []
    if isinstance(record.get("messages"), list):
        for message in record["messages"]:
            if isinstance(message, dict):
                words += str(message.get("content", "")).split()
        return words
    for key, text in record.items():
        if isinstance(text, str) and key != "category":
            words += text.split()
    return words


def _report(
    prefix: Path,
    unit: str,
    digests: dict[Path, str],
    counts: Ints,
    lengths: Ints,
    number: int,
    head: list[Any],
) -> dict[str, Any]:
    """Entries that all reports have, from the count of each distinct unit and the
    length of each document.

    ``head`` is the beginning of document ``number``. UserError if there is no such
    document.
    """
    if number >= max(len(lengths), 1):
        hint = "the data set is empty"
        if len(lengths):
            hint = f"the last document is {len(lengths) - 1}"
        raise UserError(f"no document {number}", where=prefix, hint=hint)
    share = counts[counts > 0] / max(counts.sum(), 1)
    report: dict[str, Any] = {
        "schema_version": 1,
        "unit": unit,
        "files": [{"file": str(path), "sha256": digest} for path, digest in digests.items()],
        "documents": len(lengths),
        unit: int(counts.sum()),
        f"distinct_{unit}": len(share),
        "entropy_bits": round(float(-(share * numpy.log2(share)).sum()) + 0.0, 4),
        "length": None,
        "histogram": [],
        "document": None,
    }
    if len(lengths):
        p5, median, p95 = numpy.percentile(lengths, [5, 50, 95]).tolist()
        mean = round(float(lengths.mean()), 2)
        least = int(lengths.min())
        most = int(lengths.max())
        report["length"] = {
            "mean": mean,
            "min": least,
            "p5": p5,
            "median": median,
            "p95": p95,
            "max": most,
        }
        powers = numpy.frexp(numpy.maximum(lengths, 1).astype(float))[1] - 1
        for power in range(powers.min(), powers.max() + 1):
            documents = int((powers == power).sum())
            row = {"from": 1 << power, "to": (2 << power) - 1, "documents": documents}
            report["histogram"].append(row)
        report["document"] = {"number": number, "length": int(lengths[number]), "head": head}
    return report
