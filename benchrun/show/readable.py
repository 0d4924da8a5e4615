"""Points as a table for readers: what tells them apart, what was measured, the verdict."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchrun.judge.measured import by_point, grouped
from benchrun.judge.verdict import RunResult
from benchrun.runspec.spec import RunSpec, TrainingSpec

from .repeats import metric_of
from .runs import distinctions, points_by_repeats, proxy, short_layout
from .table import Table

READ = (
    "step_time_s",
    "tokens_per_s_per_gpu",
    "tflops_per_gpu_causal",
    "mfu_causal_pct",
    "rank_spread_percent",
)
"""Metrics that have a column."""
SERVED = (
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
    "median_ttft_ms",
    "median_tpot_ms",
)
"""Metrics of servers, which share one column: few reports have both servers and
trainings.
"""
NAMES = {"gbs": "batch", "mbs": "micro", "seq_length": "sequence"}
"""Columns that state what a step computes."""
SPEED = ("ratio", "low", "high")
"""Columns of the speed over that of the reference."""
SIZES = ("batch", "micro", "tp", "pp", "cp", "ep")
"""Fields that tell points with the same name apart."""


def readable(results: Sequence[RunResult]) -> Table:
    """One row per point. A column in which no row has anything is left out."""
    points = by_point(results)
    rows = []
    differing = _differing([point[0] for point in points])
    for point, record, options in zip(
        points, points_by_repeats(results).records(), differing, strict=True
    ):
        verdict = (record["verdict"].replace("_", " "), record["limits"].replace("_", " "))
        row = [point_name(point[0]), brief(record["layout"]) or None, *map(record.get, NAMES)]
        row += [options, record["runs"]]
        for key in SPEED:
            row.append(None if record[key] is None else f"{record[key]:.3f}")
        for key in READ:
            row.append(metric_of(key).text(record[key], "") or None)
        row += [served(record), ": ".join(filter(None, verdict))]
        who = (record["source"] or "").partition(";")[0]
        rows.append([*row, record["reference"], who or None])
    metrics = [metric_of(key).title or key for key in READ]
    titles = ["point", "layout", *NAMES.values(), "with", "runs", *SPEED, *metrics, "served"]
    titles += ["verdict", "reference", "source"]
    shown = []
    for index in range(len(titles)):
        if not rows or any(row[index] is not None for row in rows):
            shown.append(index)
    return Table(titles, rows).only(shown)


def served(record: Mapping[str, Any]) -> str | None:
    """The metrics of a server, each with its name and unit; None for a training."""
    texts = []
    for key in SERVED:
        metric = metric_of(key)
        value = record.get(key)
        if value is not None:
            texts.append(f"{metric.text(value, '')} {metric.title}")
    return ", ".join(texts) or None


def _differing(results: Sequence[RunResult]) -> list[str | None]:
    """The settings that tell each point from those with the same name, batch and
    layout; None without such.
    """
    keys = []
    for result in results:
        stated = [getattr(result.spec, name, None) for name in NAMES]
        keys.append(str((point_name(result), short_layout(result.spec), *stated)))
    settings: list[str | None] = [None] * len(keys)
    for same in grouped(range(len(keys)), lambda index: keys[index]):
        for index, text in zip(
            same, distinctions([results[index].spec for index in same]), strict=True
        ):
            settings[index] = text or None
    return settings


def point_name(result: RunResult) -> str:
    """Recipe, precision, GPUs and framework."""
    spec = result.spec
    return f"{proxy(spec)}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}"


def brief(layout: str) -> str:
    """A layout without the degrees that are 1, and without the micro-batch; empty if
    nothing is split.
    """
    return re.sub(r"\b(?:[a-z]p1|mbs\d+)\b ?", "", layout).strip()


def point_labels(points: Sequence[Sequence[RunResult]]) -> list[str]:
    """A name for each point; if several have the same, with what tells them apart."""
    names = [point_name(point[0]) for point in points]
    for tell in (_sizes, distinctions):
        for same in grouped(range(len(points)), lambda index: names[index]):
            more = tell([points[index][0].spec for index in same])
            for index, added in zip(same, more, strict=True):
                names[index] = ", ".join(filter(None, (names[index], added)))
    return names


def _sizes(same: Sequence[RunSpec]) -> list[str]:
    """Batch, micro-batch and degrees of each of several points with one name, as far as
    they differ.
    """
    sizes = []
    for spec in same:
        if isinstance(spec, TrainingSpec):
            sizes.append({"batch": spec.gbs, "micro": spec.mbs, **spec.layout.model_dump()})
        else:
            sizes.append({})
    differing = []
    for name in SIZES:
        if len({str(each.get(name)) for each in sizes}) > 1:
            differing.append(name)
    found = []
    for each in sizes:
        found.append(", ".join(f"{name} {each.get(name)}" for name in differing))
    return found
