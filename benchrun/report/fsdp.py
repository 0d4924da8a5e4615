"""FSDP against 3D parallelism: runs that differ in that alone, beside the ratio that was published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchrun.compare.references import Reference
from benchrun.compare.result import RunResult
from benchrun.spec.runspec import RunSpec

SAME = ("recipe", "framework", "image", "gpu", "num_gpus", "precision", "seq_length", "gbs", "reduced")
"""Besides the cluster what both sides share; layout and micro-batch are tuned: the fastest point of a side counts."""
PUBLISHED = ("recipe", "gpu", "num_gpus", "precision", "seq_length", "gbs")
"""What a published ratio shares with the runs."""


@dataclass(frozen=True)
class Ratio:
    """Speed with FSDP over speed without, of one workload."""

    spec: RunSpec
    """Of one of the runs."""
    value: float
    published: Reference | None


def fsdp_over_3d(results: Sequence[RunResult], references: Sequence[Reference]) -> Iterator[Ratio]:
    """One ratio for each workload measured with and without FSDP; the speed of a point is the median of its repeats."""
    workloads: dict[tuple[object, ...], list[RunResult]] = defaultdict(list)
    for result in results:
        if result.numbers and result.numbers.tokens_per_s_per_gpu.median is not None:
            same = (*(getattr(result.spec, key) for key in SAME), result.spec.cluster.name)
            workloads[same].append(result)
    for runs in workloads.values():
        with_fsdp, without = (
            _fastest([run for run in runs if (run.spec.layout.fsdp > 1) is side]) for side in (True, False)
        )
        if with_fsdp and without:
            yield Ratio(runs[0].spec, with_fsdp / without, _published(runs[0].spec, references))


def _fastest(runs: Sequence[RunResult]) -> float | None:
    """Tokens/s/GPU of the fastest point."""
    points: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.numbers and run.numbers.tokens_per_s_per_gpu.median is not None:
            points[run.spec.repeat_key()].append(run.numbers.tokens_per_s_per_gpu.median)
    return max(map(median, points.values()), default=None)


def _published(spec: RunSpec, references: Sequence[Reference]) -> Reference | None:
    ratios = () if spec.reduced else (entry for entry in references if entry.metric == "fsdp_over_3d")
    return next((e for e in ratios if all(getattr(e.key, key) == getattr(spec, key) for key in PUBLISHED)), None)
