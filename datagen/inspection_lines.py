"""Inspect instruction data: JSON lines from any source, and files that only their manifest describes."""

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
from datagen.summary import HEAD, check_manifest, no_document, prefix_of, report


def inspect_lines(path: Path, document: int = 0) -> dict[str, Any]:
    """The report of the records in ``path`` and the words in their texts. UserError names a line that is no record."""
    digest, counts, sizes, shown = hashlib.sha256(), Counter[str](), [], None
    with path.open("rb") as file:
        for number, line in enumerate(file):
            digest.update(line)
            words = " ".join(_texts(_record(line, f"{path}:{number + 1}"))).split()
            counts.update(words)
            sizes.append(len(words))
            if number == document:
                shown = {"number": number, "length": len(words), "head": words[:HEAD]}
    if shown is None and document:
        raise no_document(document, len(sizes), path)
    numbers = {"documents": len(sizes), "words": sum(sizes), "distinct_words": len(counts)}
    frequencies, lengths = (numpy.array(list(values), numpy.int64) for values in (counts.values(), sizes))
    files = [(path, digest.hexdigest())]
    return report("words", files, numbers, frequencies, lengths, shown, check_manifest(prefix_of(path)))


def inspect_manifest(prefix: Path) -> dict[str, Any]:
    """The report of packed data and tokenizers: the manifest, and whether its files are intact."""
    checked = check_manifest(prefix)
    if checked["manifest"] is None:
        raise UserError("no data set", where=str(prefix), hint="give the PREFIX of its files, or a tokenizer directory")
    return {"schema_version": 1, "unit": None, "files": [], **checked}


def _record(line: bytes, where: str) -> Any:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise UserError("not a JSON object", where=where)
    return record


def _texts(record: dict[str, Any]) -> Iterator[str]:
    """Every text in a record, once: the contents of ``messages`` if it has them, else its fields."""
    if isinstance(record.get("messages"), list):
        yield from (str(message.get("content", "")) for message in record["messages"] if isinstance(message, dict))
    else:
        yield from (text for key, text in record.items() if isinstance(text, str) and key != "category")


def lines_of(path: Path) -> Path | None:
    """The JSON lines at ``path``, which is a PREFIX or a file name; None if there are none."""
    lines = beside(prefix_of(path), ".jsonl")
    return lines if lines.is_file() else None
