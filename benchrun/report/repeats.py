"""Medians over the repeats of a point."""

from collections.abc import Iterable
from statistics import median

from benchrun.metrics.model import Metrics


def valid_values(key: str, repeats: Iterable[Metrics]) -> list[float]:
    """The metric ``key`` of each run that has one."""
    return [value for run in repeats if (value := run.metrics.get(key)) is not None]


def median_of(key: str, repeats: Iterable[Metrics]) -> float | None:
    """The median of the metric ``key``; None where no run has it."""
    values = valid_values(key, repeats)
    return median(values) if values else None
