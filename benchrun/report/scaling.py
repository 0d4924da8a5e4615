"""Scaling curves: measured runs that differ only in their number of GPUs, and in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from benchrun.compare.measured import MeasuredRun
from benchrun.spec.runspec import RunSpec


@dataclass(frozen=True)
class Curve:
    """One workload on at least two numbers of GPUs."""

    spec: RunSpec
    """Of the fewest GPUs."""
    kind: str
    """weak: the same batch a GPU; strong: the same global batch."""
    rates: dict[int, float]
    """Tokens/s/GPU by number of GPUs, the fewest first."""
    batches: tuple[int, ...]
    """Global batches, in sequences, in the same order; one where it stays the same."""


def curves(groups: Sequence[Sequence[MeasuredRun]]) -> list[Curve]:
    """Every curve among ``groups`` of repeats."""
    found: dict[tuple[str, Fraction, str], dict[int, Sequence[MeasuredRun]]] = {}
    for group in groups:
        spec = group[0].spec
        if not _rates(group):
            continue
        for kind, batch in (("weak", Fraction(spec.gbs, spec.num_gpus)), ("strong", Fraction(spec.gbs))):
            found.setdefault((kind, batch, _same(spec)), {})[spec.num_gpus] = group
    return [_curve(kind, by_count) for (kind, *_), by_count in found.items() if len(by_count) > 1]


def _same(spec: RunSpec) -> str:
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
