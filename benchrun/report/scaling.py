"""Speed against one condition: curves over the number of GPUs, and FSDP over 3D parallelism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Any

from benchrun.compare.measured import MeasuredRun
from benchrun.compare.references import Reference
from benchrun.compare.verdict import RunResult
from benchrun.spec.runspec import TrainingSpec


@dataclass(frozen=True)
class Curve:
    """One workload on at least two numbers of GPUs."""

    spec: TrainingSpec
    """Of the fewest GPUs."""
    kind: str
    """weak: the same batch per GPU; strong: the same global batch."""
    rates: dict[int, float]
    """Tokens/s/GPU by number of GPUs, the fewest first."""
    batches: tuple[int, ...]
    """Global batches, in sequences, in the same order; one where it stays the same."""


def curves(groups: Sequence[Sequence[MeasuredRun]]) -> list[Curve]:
    """Every curve among ``groups`` of repeats."""
    families: dict[tuple[str, Fraction, str], dict[int, Sequence[MeasuredRun]]] = {}
    for group in groups:
        spec = group[0].spec
        if not _rates(group):
            continue
        for kind, batch in (("weak", Fraction(spec.gbs, spec.num_gpus)), ("strong", Fraction(spec.gbs))):
            families.setdefault((kind, batch, _same(spec)), {})[spec.num_gpus] = group
    return [_curve(kind, by_count) for (kind, *_), by_count in families.items() if len(by_count) > 1]


def _same(spec: TrainingSpec) -> str:
    """What stays the same along a curve: everything but the size and the number of steps."""
    size = {"num_gpus": 1, "dp": 1, "gbs": 1, "num_microbatches": 1}
    return spec.model_copy(update=size).step_identity()


def _curve(kind: str, by_count: dict[int, Sequence[MeasuredRun]]) -> Curve:
    ordered = dict(sorted(by_count.items()))
    rates = {count: median(_rates(runs)) for count, runs in ordered.items()}
    batches = dict.fromkeys(runs[0].spec.gbs for runs in ordered.values())
    return Curve(next(iter(ordered.values()))[0].spec, kind, rates, tuple(batches))


def _rates(runs: Sequence[MeasuredRun]) -> list[float]:
    return [rate for run in runs if (rate := run.metrics.tokens_per_s_per_gpu.median)]


SAME = ("recipe", "framework", "image", "gpu", "num_gpus", "precision", "seq_length", "gbs", "reduced")
"""Besides the cluster what both sides share; layout and micro-batch are tuned: the fastest point of a side counts."""
PUBLISHED = ("recipe", "gpu", "num_gpus", "precision", "seq_length", "gbs")
"""What a published ratio shares with the runs."""


@dataclass(frozen=True)
class Ratio:
    """Speed with FSDP over speed without, of one workload."""

    spec: TrainingSpec
    """Of one of the runs."""
    value: float
    published: Reference | None


def fsdp_over_3d(results: Sequence[RunResult], references: Sequence[Reference]) -> Iterator[Ratio]:
    """One ratio for each workload measured with and without FSDP; the speed of a point is the median of its repeats."""
    workloads: dict[tuple[object, ...], list[RunResult]] = defaultdict(list)
    for result in (result for result in results if isinstance(result.spec, TrainingSpec)):
        same = (*(getattr(result.spec, key) for key in SAME), result.spec.cluster.name)
        workloads[same].append(result)
    for runs in workloads.values():
        with_fsdp, without = (_fastest([run for run in runs if _sharded(run.spec) is side]) for side in (True, False))
        if with_fsdp and without:
            spec: Any = runs[0].spec
            yield Ratio(spec, with_fsdp / without, _published(spec, references))


def _sharded(spec: Any) -> bool:
    return bool(spec.layout.fsdp > 1)


def _fastest(runs: Sequence[RunResult]) -> float | None:
    """Tokens/s/GPU of the fastest point."""
    points: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.numbers and run.numbers.tokens_per_s_per_gpu.median is not None:
            points[run.spec.repeat_key()].append(run.numbers.tokens_per_s_per_gpu.median)
    return max(map(median, points.values()), default=None)


def _published(spec: TrainingSpec, references: Sequence[Reference]) -> Reference | None:
    ratios = () if spec.reduced else (entry for entry in references if entry.metric == "fsdp_over_3d")
    return next((e for e in ratios if all(getattr(e.key, key) == getattr(spec, key) for key in PUBLISHED)), None)
