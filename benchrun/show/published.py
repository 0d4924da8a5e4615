"""Measured points beside the published numbers that are nearest to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchrun.judge.nearest import Nearest, nearest
from benchrun.judge.references import Reference
from benchrun.measure.registry import METRICS
from benchrun.runspec.spec import TrainingSpec

from .frameworks import ValidRun
from .repeats import median_of, valid_values
from .table import Table

STATED = ("gpu", "num_gpus", "framework", "image", "num_layers", "dimensions")
"""Conditions that the name of a point or the source of a number states already."""


@dataclass(frozen=True)
class Pair:
    """A measured point and the published number beside it."""

    name: str
    """Name of the point."""
    spec: TrainingSpec
    rates: tuple[float, ...]
    """Tokens/s/GPU of each of its runs."""
    measured: float
    """The measured value in the unit of the published number."""
    near: Nearest

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Median of its runs."""
        return median(self.rates)

    @property
    def ratio(self) -> float:
        """Measured / published."""
        return self.measured / self.near.published

    @property
    def published_on(self) -> str:
        """GPUs and framework of the published number."""
        key = self.near.entry.key
        return f"{key.num_gpus or '?'} x {key.gpu}, {self.near.entry.software}"

    @property
    def source(self) -> str:
        """Source of the number: who published it, and when."""
        return f"{self.near.entry.source.who} {self.near.entry.source.date}"

    @property
    def differs(self) -> str:
        """Other differences, published -> ours, besides the model, the GPUs, the
        framework and its image.
        """
        others = []
        for each in self.near.differs:
            if each.partition(" ")[0] not in STATED:
                others.append(each)
        return ", ".join(others) or "nothing else that is stated"


def pairs(
    points: Sequence[tuple[str, Sequence[ValidRun]]], published: Sequence[Reference]
) -> list[Pair]:
    """One pair for each named point that has a published number near it; medians over
    its repeats.
    """
    listed = []
    for name, repeats in points:
        spec = repeats[0].spec
        metrics = [run.metrics for run in repeats]
        near = nearest(spec, published)
        rates = valid_values(METRICS["tokens_per_s_per_gpu"].key, metrics)
        if not near or not rates:
            continue
        value = near.measured(median(rates), median_of(METRICS["tflops_per_gpu"].key, metrics))
        if value is not None:
            listed.append(Pair(name, spec, tuple(rates), value, near))
    return listed


def published_table(listed: Sequence[Pair]) -> Table:
    """One row per pair, for readers."""
    titles = (
        "point",
        "measured",
        "published",
        "unit",
        "ratio",
        "published by",
        "also differs: published, ours",
    )
    rows = []
    for pair in listed:
        near = pair.near
        by = f"{pair.source}, {pair.published_on}"
        values = (f"{pair.measured:,.0f}", f"{near.published:,.0f}", near.unit, f"{pair.ratio:.2f}")
        rows.append((pair.name, *values, by, pair.differs))
    return Table(titles, rows)
