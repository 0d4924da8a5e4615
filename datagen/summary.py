"""Parts that all reports of ``datagen inspect`` share: lengths, entropy, and the check against the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy

from benchrun.errors import UserError
from datagen.manifest import damage, load
from datagen.output import beside
from datagen.sampling import Ints

SUFFIXES = (".bin", ".idx", ".json", ".jsonl", ".npy")
HEAD = 16
"""Units of a document that a report shows."""


def prefix_of(path: Path) -> Path:
    """The PREFIX of a file of a data set, or ``path`` if it is the PREFIX itself."""
    if path.suffix not in SUFFIXES or any(beside(path, suffix).exists() for suffix in (".json", ".idx")):
        return path
    return path.with_name(path.name.removesuffix(path.suffix))


def report(
    unit: str,
    files: Iterable[tuple[Path, str]],
    numbers: dict[str, Any],
    counts: Ints,
    lengths: Ints,
    document: dict[str, Any] | None,
    manifest: dict[str, Any],
) -> dict[str, Any]:
    """A report as JSON, from the SHA-256 of each file, the count of each unit and the length of each document."""
    return {
        "schema_version": 1,
        "unit": unit,
        "files": [{"file": str(path), "sha256": digest} for path, digest in files],
        **numbers,
        "entropy_bits": _entropy(counts),
        "length": _length(lengths),
        "histogram": _histogram(lengths),
        "document": document,
        **manifest,
    }


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


def _entropy(counts: Ints) -> float:
    """Entropy of a single unit, in bits."""
    share = counts[counts > 0] / max(counts.sum(), 1)
    return round(float(-(share * numpy.log2(share)).sum()) + 0.0, 4)


def _length(lengths: Ints) -> dict[str, float] | None:
    if not len(lengths):
        return None
    p5, median, p95 = numpy.percentile(lengths, [5, 50, 95])
    return {
        "mean": round(float(lengths.mean()), 2),
        "min": int(lengths.min()),
        "p5": float(p5),
        "median": float(median),
        "p95": float(p95),
        "max": int(lengths.max()),
    }


def _histogram(lengths: Ints) -> list[dict[str, int]]:
    """The number of documents between powers of two: ``{"from": 64, "to": 127, "documents": ...}``."""
    powers = numpy.frexp(numpy.maximum(lengths, 1).astype(float))[1] - 1
    counts = numpy.bincount(powers)
    first = int(numpy.flatnonzero(counts)[0]) if len(counts) else 0
    return [
        {"from": 1 << power, "to": (2 << power) - 1, "documents": int(counts[power])}
        for power in range(first, len(counts))
    ]
