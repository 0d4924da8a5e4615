"""FSDP against 3D parallelism: runs that differ in that alone, beside the ratio that was published."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from benchrun.compare.references import Reference
from benchrun.report.runs import RunResult
from benchrun.report.terminal import reference_line

SAME = ("recipe", "framework", "image", "gpu", "num_gpus", "precision", "seq_length", "gbs", "reduced", "cluster")
"""What both sides must share; layout and micro-batch are what each side tunes: its fastest point counts."""


_Points = dict[str, list[float]]
"""Speeds of the repeats of each point."""


def fsdp_over_3d(results: Sequence[RunResult], references: Sequence[Reference]) -> Iterator[str]:
    """A line for each pair of sides that were measured: speed with FSDP over speed without, medians of repeats."""
    pairs: dict[tuple[object, ...], dict[bool, _Points]] = defaultdict(lambda: {True: {}, False: {}})
    for result in results:
        speed = result.numbers.tokens_per_s_per_gpu.median if result.numbers else None
        if speed is not None:
            spec = {**dict(result.spec), "cluster": result.spec.cluster.name}
            same = tuple(spec[key] for key in SAME)
            pairs[same][result.spec.layout.fsdp > 1].setdefault(result.spec.repeat_key(), []).append(speed)
    for same, sides in pairs.items():
        if sides[True] and sides[False]:
            run = dict(zip(SAME, same, strict=True))
            with_fsdp, without = (max(map(statistics.median, sides[side].values())) for side in (True, False))
            what = f"{run['recipe']}, {run['precision']}, {run['num_gpus']} x {run['gpu']}, {run['framework']}"
            said = f"FSDP reached {with_fsdp / without:.2f} of the speed of 3D parallelism ({what})"
            yield f"{said}; {_published(run, references)}"


def _published(run: dict[str, object], references: Sequence[Reference]) -> str:
    where = None if run["reduced"] else (run["recipe"], run["gpu"], run["num_gpus"])
    ratios = (entry for entry in references if entry.metric == "fsdp_over_3d")
    found = next((e for e in ratios if (e.key.recipe, e.key.gpu, e.key.num_gpus) == where), None)
    return f"published: {reference_line(found)}" if found else "no ratio was published"
