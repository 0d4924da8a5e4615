"""Several runs as one table: one row per point, its repeats together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from benchrun.compare.checks import Check
from benchrun.compare.references import Reference, load_references
from benchrun.compare.verdict import RunResult
from benchrun.metrics.registry import METRICS, tabled
from benchrun.report.scaling import Ratio, fsdp_over_3d
from benchrun.report.table import Column, Table, markdown, rounded
from benchrun.spec.runspec import RunSpec, TrainingSpec

POINT = ("recipe", "framework", "gpu", "precision", "num_gpus", "seq_length", "gbs", "layout", "cluster")
SPREAD = "step_time_s"
"""Metric whose range over the repeats is shown."""


def table(results: Sequence[RunResult]) -> Table:
    """One row per point. Metrics are medians of the valid repeats, ``spread_pct`` is the range of their step times."""
    points: dict[tuple[Any, ...], list[RunResult]] = {}
    for result in results:
        points.setdefault((*_point(result.spec), result.spec.repeat_key()), []).append(result)
    columns = (
        *(Column(name) for name in (*POINT, "runs")),
        *(Column(metric.key, text=_six_digits) for metric in tabled()),
        *(Column(name) for name in ("verdict", "limits")),
        Column("spread_pct", text=_six_digits),
    )
    return Table(columns, [_row(key[:-1], repeats) for key, repeats in points.items()])


def runs_page(results: Sequence[RunResult]) -> str:
    """The table in Markdown, and a line for each ratio of FSDP to 3D parallelism."""
    if not results:
        return "no runs\n"
    lines = map(ratio_line, fsdp_over_3d(results, load_references()))
    return markdown(table(results)) + "".join(f"\n{line}\n" for line in lines)


def ratio_line(ratio: Ratio) -> str:
    """One ratio beside the published one."""
    spec, published = ratio.spec, ratio.published
    what = f"{spec.recipe}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}"
    beside = f"published: {reference_line(published)}" if published else "no ratio was published"
    return f"FSDP reached {ratio.value:.2f} of the speed of 3D parallelism ({what}); {beside}"


def proxy(spec: RunSpec) -> str:
    """The recipe's name, with what a proxy has less of."""
    reduced = spec.reduced if isinstance(spec, TrainingSpec) else ()
    return spec.recipe + (f" (proxy: {', '.join(map(str, reduced))})" if reduced else "")


def _row(point: tuple[Any, ...], repeats: Sequence[RunResult]) -> list[Any]:
    measured = [result.numbers for result in repeats if result.numbers]
    values = {name: [run.metrics[name] for run in measured] for name in (metric.key for metric in tabled())}
    valid = {name: [value for value in numbers if value is not None] for name, numbers in values.items()}
    times = valid[METRICS[SPREAD].key]
    spread = 100 * (max(times) - min(times)) / median(times) if len(times) > 1 else None
    labels = [", ".join(label.code for label in result.verdict.labels) for result in repeats if result.verdict]
    return [
        *(*point, len(repeats)),
        *(median(numbers) if numbers else None for numbers in valid.values()),
        *(_distinct(result.judgement for result in repeats), _distinct(labels)),
        spread,
    ]


def _point(spec: RunSpec) -> tuple[Any, ...]:
    if not isinstance(spec, TrainingSpec):
        own = (spec.num_gpus, None, None, spec.settings, spec.cluster.name)
        return (spec.recipe, spec.framework, spec.gpu, spec.precision, *own)
    cut = spec.layout
    layout = f"tp{cut.tp} pp{cut.pp} cp{cut.cp} vp{cut.vp} ep{cut.ep} mbs{spec.mbs}"
    layout += f" fsdp{cut.fsdp}" if cut.fsdp > 1 else ""
    sizes = (spec.num_gpus, spec.seq_length, spec.gbs)
    return (proxy(spec), spec.framework, spec.gpu, spec.precision, *sizes, layout, spec.cluster.name)


def _distinct(words: Iterable[str]) -> str:
    """The different words, in order."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def _six_digits(value: float) -> str:
    return f"{rounded(value):.6g}"


def reference_line(entry: Reference) -> str:
    """A reference with its source."""
    flags = f" [{', '.join(entry.flags)}]" if entry.flags else ""
    version = "".join(f", {v}" for v in (entry.key.framework_version or entry.key.image, entry.key.variant) if v)
    return (
        f"{entry.value:g} {entry.unit} ({entry.source.who} {entry.source.date}{version}; {entry.source.where}){flags}"
    )


def check_line(check: Check) -> str:
    """One number beside the reference it was compared with."""
    if check.reference.better == "equal":
        return f"final loss {check.value:.4f}, reference {reference_line(check.reference)}"
    digits = 4 if check.value < 1 else 3
    value = f"{check.value:.0f}" if check.value >= 100 else f"{check.value:.{digits}g}"
    line = f"{value} {check.reference.unit}, reference {reference_line(check.reference)}"
    if check.differs:
        line += "; differs: " + ", ".join(f"{d.key} {d.theirs} -> {d.ours}" for d in check.differs)
    return line
