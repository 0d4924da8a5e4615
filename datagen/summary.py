"""What every data set is described by: lengths, entropy, and whether it still is what its manifest says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from datagen.manifest import damaged, load
from datagen.output import beside
from datagen.sampling import Ints

SUFFIXES = (".bin", ".idx", ".json", ".jsonl", ".npy")


def prefix_of(path: Path) -> Path:
    """The PREFIX of a file of a data set, or the PREFIX itself."""
    if path.suffix not in SUFFIXES or any(beside(path, suffix).exists() for suffix in (".json", ".idx")):
        return path
    return path.with_name(path.name.removesuffix(path.suffix))


def manifest_beside(*prefixes: Path) -> dict[str, Any]:
    """What the manifest of the first prefix that has one says, and what of its files is no longer so."""
    place = next((place for place in (beside(prefix, ".json") for prefix in prefixes) if place.exists()), None)
    if place is None:
        return {"manifest": None, "intact": None, "fault": None}
    manifest = load(place)
    fault = damaged(manifest, place.parent)
    return {"manifest": manifest.model_dump(mode="json", exclude={"files"}), "intact": fault is None, "fault": fault}


def entropy(counts: Ints) -> float:
    """Of single tokens, in bits."""
    share = counts[counts > 0] / max(counts.sum(), 1)
    return round(float(-(share * numpy.log2(share)).sum()) + 0.0, 4)


def length(lengths: Ints) -> dict[str, float] | None:
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


def histogram(lengths: Ints) -> list[dict[str, int]]:
    """Documents between powers of two: ``{"from": 64, "to": 127, "documents": ...}``."""
    powers = numpy.frexp(numpy.maximum(lengths, 1).astype(float))[1] - 1
    counts = numpy.bincount(powers, minlength=1) if len(lengths) else numpy.zeros(0, dtype=int)
    first = int(numpy.flatnonzero(counts)[0]) if counts.any() else 0
    return [
        {"from": 1 << power, "to": (2 << power) - 1, "documents": int(counts[power])}
        for power in range(first, len(counts))
    ]
