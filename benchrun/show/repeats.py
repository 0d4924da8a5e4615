"""Medians over the repeats of a point."""

from collections.abc import Iterable
from statistics import median

from benchrun.measure.metric import OURS, Metric
from benchrun.measure.model import Metrics
from benchrun.measure.registry import tabled


def metric_of(key: str) -> Metric:
    """The metric of a column."""
    return next(metric for metric in tabled(served=True) if metric.key == key)


def valid_values(key: str, repeats: Iterable[Metrics]) -> list[float]:
    """The metric ``key`` of each run that has one."""
    metric = metric_of(key)
    values = (metric.read(run, OURS) for run in repeats)
    return [value for value in values if value is not None]


def median_of(key: str, repeats: Iterable[Metrics]) -> float | None:
    """The median of the metric ``key``; None if no run has it."""
    values = valid_values(key, repeats)
    if not values:
        return None
    return median(values)
