"""Points as a table for readers: what tells them apart, what was measured, the verdict."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchrun.comparison.measured import by_point, grouped
from benchrun.comparison.verdict import RunResult
from benchrun.metrics.registry import tabled
from benchrun.report.runs import distinctions, proxy, short_layout, table
from benchrun.report.table import Table

READ = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu_causal", "mfu_causal_pct", "rank_spread_percent")
"""Metrics that have a column."""
SERVED = ("output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user", "median_ttft_ms", "median_tpot_ms")
"""Metrics of servers, which share one column: few reports have both servers and trainings."""
METRICS_BY_KEY = {metric.key: metric for metric in tabled(served=True)}
NAMES = {"gbs": "batch", "mbs": "micro", "seq_length": "sequence"}
"""Columns that state what a step computes."""


def readable(results: Sequence[RunResult]) -> Table:
    """One row per point. A column in which no row has anything is left out."""
    records = table(results).records()
    points = by_point(results)
    differing = _differing([point[0] for point in points])
    rows = [
        (
            *(
                point_name(point[0]),
                brief(record["layout"]) or None,
                *(record[key] for key in NAMES),
                options,
                record["runs"],
            ),
            *(METRICS_BY_KEY[key].text(record[key], "") or None for key in READ),
            _served(record),
            ": ".join(filter(None, (record["verdict"].replace("_", " "), record["limits"].replace("_", " ")))),
        )
        for point, record, options in zip(points, records, differing, strict=True)
    ]
    metrics = (METRICS_BY_KEY[key].title or key for key in READ)
    titles = ("point", "layout", *NAMES.values(), "with", "runs", *metrics, "served", "verdict")
    shown = [index for index in range(len(titles)) if not rows or any(row[index] is not None for row in rows)]
    return Table(titles, rows).only(shown)


def _served(record: Mapping[str, Any]) -> str | None:
    """The metrics of a server, each with its name and unit; None for a training."""
    values = ((METRICS_BY_KEY[key], record.get(key)) for key in SERVED)
    return (
        ", ".join(f"{metric.text(value, '')} {metric.title}" for metric, value in values if value is not None) or None
    )


def _differing(points: Sequence[RunResult]) -> list[str | None]:
    """For each point the settings that tell it from points with the same name, batch and layout; None without such."""
    settings: dict[int, str] = {}
    keys = [
        (point_name(each), short_layout(each.spec), *(getattr(each.spec, name, None) for name in NAMES))
        for each in points
    ]
    for same in grouped(range(len(points)), lambda index: str(keys[index])):
        settings |= zip(same, distinctions([points[index].spec for index in same]), strict=True)
    return [settings[index] or None for index in range(len(points))]


def point_name(result: RunResult) -> str:
    """Recipe, precision, GPUs and framework."""
    spec = result.spec
    return f"{proxy(spec)}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}"


def brief(layout: str) -> str:
    """A layout without the degrees that are 1, and without the micro-batch; empty where nothing is split."""
    return re.sub(r"\b(?:[a-z]p1|mbs\d+)\b ?", "", layout).strip()
