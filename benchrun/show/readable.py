"""Points as a table for readers: what tells them apart, what was measured, the verdict."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchrun.judge.measured import by_point, grouped
from benchrun.judge.verdict import RunResult
from benchrun.runspec.spec import RunSpec, TrainingSpec

from .repeats import metric_of
from .runs import distinctions, points_by_repeats, proxy, ratio_of, short_layout, site_name
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


def readable(results: Sequence[RunResult]) -> Table:
    """One row per point. A column in which no row has anything is left out."""
    rows = []
    records = points_by_repeats(results).records()
    for (name, point), record in zip(named_points(results), records, strict=True):
        row = [name, brief(record["layout"]) or None, *map(record.get, NAMES), record["runs"]]
        for key in SPEED:
            row.append(None if record[key] is None else f"{record[key]:.3f}")
        for key in READ:
            row.append(metric_of(key).text(record[key], "") or None)
        limits = record["limits"].replace("_", " ")
        row += [served(record), ": ".join(filter(None, (judgements(point), limits)))]
        ratio = ratio_of(point)
        rows.append([*row, record["reference"], ratio and ratio.against])
    metrics = [metric_of(key).title or key for key in READ]
    titles = ["point", "layout", *NAMES.values(), "runs", *SPEED, *metrics, "served"]
    titles += ["verdict", "reference", "source"]
    shown = []
    for index in range(len(titles)):
        if not rows or any(row[index] is not None for row in rows):
            shown.append(index)
    return Table(titles, rows).only(shown)


def judgements(repeats: Sequence[RunResult]) -> str:
    """The verdict of a point; where its runs have several, how many have each."""
    counts = Counter(result.judgement.replace("_", " ") for result in repeats)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {name}" for name, number in counts.most_common())


def served(record: Mapping[str, Any]) -> str | None:
    """The metrics of a server, each with its name and unit; None for a training."""
    texts = []
    for key in SERVED:
        metric = metric_of(key)
        value = record.get(key)
        if value is not None:
            texts.append(f"{metric.text(value, '')} {metric.title}")
    return ", ".join(texts) or None


def point_name(spec: RunSpec) -> str:
    """Recipe, precision, GPUs and framework."""
    return f"{proxy(spec)}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}"


def brief(layout: str) -> str:
    """A layout without the degrees that are 1, and without the micro-batch; empty if
    nothing is split.
    """
    return re.sub(r"\b(?:[a-z]p1|mbs\d+)\b ?", "", layout).strip()


def named_points(results: Sequence[RunResult]) -> list[tuple[str, list[RunResult]]]:
    """The repeats of each point together, with its name."""
    points = by_point(results)
    names = point_labels([point[0].spec for point in points])
    return list(zip(names, points, strict=True))


def point_labels(specs: Sequence[RunSpec]) -> list[str]:
    """A name for each point: every place that names points calls this one. Where several
    would have the same name, each also says in what these differ.
    """
    names = told_apart(list(map(point_name, specs)), list(map(_sizes, specs)))
    for same in grouped(range(len(specs)), lambda index: names[index]):
        more = distinctions([specs[index] for index in same])
        for index, added in zip(same, more, strict=True):
            names[index] = ", ".join(filter(None, (names[index], added)))
    return names


def _sizes(spec: RunSpec) -> dict[str, str]:
    """What tells points with one name apart, in the words that are shown."""
    found = {"cluster": f"cluster {site_name(spec)}"}
    if isinstance(spec, TrainingSpec):
        for name, title in NAMES.items():
            found[name] = f"{title} {getattr(spec, name)}"
        found["layout"] = brief(short_layout(spec))
    return found


def told_apart(names: Sequence[str], details: Sequence[Mapping[str, str]]) -> list[str]:
    """Each of ``names``, with those of its details in which the ones of the same name differ."""
    found = list(names)
    for same in grouped(range(len(names)), lambda index: names[index]):
        for key in details[same[0]]:
            values = [details[index].get(key, "") for index in same]
            if len(set(values)) > 1:
                for index, value in zip(same, values, strict=True):
                    found[index] = ", ".join(filter(None, (found[index], value)))
    return found
