"""What is in instruction data as JSON lines, whoever made it; and in what only its manifest describes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

from benchrun.errors import UserError
from datagen.output import beside
from datagen.summary import entropy, histogram, length, manifest_beside, prefix_of

HEAD_WORDS = 16


def inspect_lines(path: Path, document: int = 0) -> dict[str, Any]:
    """Records and the words of their texts. UserError names the line that is no record."""
    digest, words, sizes, shown = hashlib.sha256(), Counter[str](), [], None
    with path.open("rb") as file:
        for number, line in enumerate(file):
            digest.update(line)
            spoken = " ".join(_texts(_record(line, f"{path}:{number + 1}"))).split()
            words.update(spoken)
            sizes.append(len(spoken))
            if number == document:
                shown = {"number": number, "length": len(spoken), "head": spoken[:HEAD_WORDS]}
    if shown is None and document:
        raise UserError(f"there is no document {document}", where=str(path), hint=f"they are 0 to {len(sizes) - 1}")
    lengths = numpy.array(sizes, dtype=numpy.int64)
    return {
        "schema_version": 1,
        "unit": "words",
        "files": [{"file": str(path), "sha256": digest.hexdigest()}],
        "documents": len(sizes),
        "words": int(lengths.sum()),
        "distinct_words": len(words),
        "entropy_bits": entropy(numpy.array(list(words.values()), dtype=numpy.int64)),
        "length": length(lengths),
        "histogram": histogram(lengths),
        "document": shown,
        **manifest_beside(prefix_of(path)),
    }


def inspect_manifest(prefix: Path) -> dict[str, Any]:
    """The manifest and whether its files are still so: of packed data and tokenizers, which nothing here decodes."""
    said = manifest_beside(prefix)
    if said["manifest"] is None:
        raise UserError("no data set", where=str(prefix), hint="give the PREFIX of its files, or a tokenizer directory")
    return {"schema_version": 1, "unit": None, "files": [], **said}


def _record(line: bytes, where: str) -> Any:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise UserError("not a JSON object", where=where)
    return record


def _texts(value: Any) -> Iterator[str]:
    """Every text in a record, once: what ``messages`` hold, or else the fields."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        yield from (str(message.get("content", "")) for message in value["messages"] if isinstance(message, dict))
    elif isinstance(value, dict):
        yield from (text for key, text in value.items() if isinstance(text, str) and key != "category")


def lines_of(path: Path) -> Path | None:
    """The JSON lines that ``path`` names, if it names some."""
    lines = beside(prefix_of(path), ".jsonl")
    return lines if lines.is_file() else None
