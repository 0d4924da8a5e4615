"""docs/measured.md: our measurements beside published numbers. ``python -m benchrun.report.measured`` prints it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, TypeVar

import click

from benchrun import paths
from benchrun.compare.measured import MeasuredRun, load_measured, repeats
from benchrun.compare.references import Reference, load_references
from benchrun.metrics.registry import Metric, tabled
from benchrun.metrics.telemetry import percent
from benchrun.model.operators import PASSES
from benchrun.report.beside import Beside, nearest, what_differs
from benchrun.report.runs import proxy
from benchrun.report.scaling import Curve, curves
from benchrun.report.table import Column, Table, column, markdown
from benchrun.spec.artifacts import Ceilings, CollectiveRate
from benchrun.spec.runspec import TrainingSpec

T = TypeVar("T")
Group = Sequence[MeasuredRun]
"""Repeats of one point."""
TEXT = paths.TEMPLATES / "reports" / "measured.md"
"""The page, with a placeholder for the table of each section; a section without rows is left out."""
EMPTY = "\nNothing is kept there yet.\n"
PRODUCTS = ("qkv", "proj", "fc1", "fc2", "logits")
"""The matrix products that have ceilings."""
NOTHING = "-"


def _rates(rates: dict[str, float]) -> str:
    return ", ".join(f"{number} {rate:,.0f}" for number, rate in rates.items())


def _collectives(collectives: Sequence[CollectiveRate]) -> str:
    return ", ".join(f"{c.name} {c.bus_gb_per_s:.4g} ({c.ranks} of {c.group})" for c in collectives)


def _part(part: tuple[float, float]) -> str:
    return f"{part[0]:.3g} s, {part[1]:.0f} %"


def _reasons(reasons: dict[str, float]) -> str:
    return ", ".join(f"{name} {percent(share)}" for name, share in reasons.items()) or "none"


def _list(form: str) -> Callable[[Iterable[float]], str]:
    return lambda values: ", ".join(form.format(value) for value in values)


CEILING_COLUMNS = (
    *(column("run"), *(Column(name, text=_rates) for name in PRODUCTS)),
    *(column("copy", ",.0f"), Column("collectives", text=_collectives)),
)
SCALING_COLUMNS = (
    *map(column, ("workload", "scaling")),
    Column("global batch", text=_list("{:,}")),
    Column("GPUs: tokens/s/GPU", text=lambda rates: ", ".join(f"{n}: {rate:,.0f}" for n, rate in rates.items())),
    Column("efficiency", text=_list("{:.1f} %")),
)
BOUND_COLUMNS = (
    *(column("run"), column("step s", ".4g")),
    *(Column(name, text=_part) for name in ("matmul", "attention at least", "rest")),
)
BREAKDOWN_COLUMNS = (
    *(column("run"), column("step s", ".4g")),
    *(column(n, ".1f", " %") for n in ("matmul", "attention", "other kernels", "communication alone", "nothing")),
    column("communication hidden s", ".3g"),
)
STATE_COLUMNS = (
    column("run"),
    *(column(name, ".0f") for name in ("clock MHz", "lowest", "W", "limit W", "hottest C")),
    *(column("memory GiB", ".1f"), Column("reasons", text=_reasons), column("state")),
)
CONDITION_COLUMNS = tuple(map(column, ("run", "batch and layout", "machine", "where")))


def page(runs: Sequence[MeasuredRun], published: Sequence[Reference]) -> str:
    """The whole page, in Markdown."""
    header, *sections = re.split(r"\n(?=## )", TEXT.read_text())
    if not runs:
        return header + EMPTY
    groups = sorted(repeats(runs), key=lambda group: _order(group[0].spec))
    tables = {
        "speeds": Table(_speed_columns(), [_speed_row(group, published) for group in groups], NOTHING),
        "scaling": Table(SCALING_COLUMNS, [_scaling_row(curve) for curve in curves(groups)]),
        "ceilings": Table(CEILING_COLUMNS, _rows(groups, _ceiling_row), NOTHING),
        "bounds": Table(BOUND_COLUMNS, _rows(groups, _bound_row)),
        "breakdowns": Table(BREAKDOWN_COLUMNS, _rows(groups, _breakdown_row)),
        "state": Table(STATE_COLUMNS, _rows(groups, _state_row), NOTHING),
        "conditions": Table(CONDITION_COLUMNS, [_condition_row(group) for group in groups]),
    }
    for text, table in zip(sections, tables.values(), strict=True):
        if table.rows:
            header += "\n" + text.partition("$")[0] + markdown(table)
    return header


def _rows(groups: Sequence[Group], row: Callable[[Group], list[Any] | None]) -> list[list[Any]]:
    return [cells for group in groups if (cells := row(group))]


def _order(spec: TrainingSpec) -> tuple[str, int, str, str, int, int, float]:
    return spec.recipe, spec.model.num_layers, spec.gpu, spec.precision, spec.num_gpus, spec.gbs, spec.training.lr


def _label(spec: TrainingSpec) -> str:
    return f"{_workload(spec)} {spec.precision} {spec.num_gpus} x {spec.gpu}, batch {_batch(spec)}"


def _workload(spec: TrainingSpec) -> str:
    return proxy(spec) + (", attention in FP8" if spec.training.fp8.dot_product_attention else "")


def _batch(spec: TrainingSpec) -> str:
    return f"{spec.gbs} (mbs {spec.mbs}, lr {spec.training.lr:g})"


def _speed_columns() -> tuple[Column, ...]:
    first, *others = (column(metric.title or metric.key, metric.format, metric.suffix) for metric in tabled())
    return (
        *map(column, ("workload", "precision", "GPUs", "batch", "runs")),
        *(first, Column("spread", text=_spread), *others, Column("loss", text=_losses)),
        *(Column("published tokens/s/GPU", text=_published), Column("ours / theirs", text=_ratio)),
        column("what differs: theirs -> ours"),
    )


def _speed_row(group: Group, published: Sequence[Reference]) -> list[Any]:
    spec, first = group[0].spec, group[0].metrics
    values = {metric.name: _values(group, metric) for metric in tabled()}
    time, *others = (median(numbers) if numbers else None for numbers in values.values())
    times = values["step_time_s"]
    near = nearest(spec, published)
    tflops, rate = (
        median(values[name]) if values[name] else None for name in ("tflops_per_gpu", "tokens_per_s_per_gpu")
    )
    return [
        _workload(spec) + (", throttled" if any(_fault(run) for run in group) else ""),
        *(spec.precision, f"{spec.num_gpus} x {spec.gpu}", _batch(spec), len(group)),
        *(time, 100 * (max(times) - min(times)) / time if time and len(times) > 1 else math.nan, *others),
        (first.first_loss, first.final_loss),
        *((near, (near, near.ratio(rate, tflops)), what_differs(near.entry, spec)) if near else (None, None, None)),
    ]


def _spread(percent: float) -> str:
    return "one run" if math.isnan(percent) else f"{percent:.1f} %"


def _losses(both: tuple[float | None, float | None]) -> str:
    return " -> ".join(NOTHING if loss is None else f"{loss:.4g}" for loss in both)


def _published(near: Beside) -> str:
    """Their number."""
    whole = "" if near.whole_tflops is None else f" of the whole model: {near.whole_tflops:.0f} TFLOPS"
    return f"{near.tokens_per_s:,.0f}{whole} ({near.entry.source.who} {near.entry.source.date})"


def _ratio(beside: tuple[Beside, float | None]) -> str:
    near, value = beside
    return (NOTHING if value is None else f"{value:.2f}") + ("" if near.whole_tflops is None else " in TFLOPS")


def _scaling_row(curve: Curve) -> list[Any]:
    spec, base = curve.spec, curve.rates[min(curve.rates)]
    efficiency = [100 * rate / base for rate in curve.rates.values()]
    return [f"{_workload(spec)} {spec.precision} {spec.gpu}", curve.kind, curve.batches, curve.rates, efficiency]


def _first(group: Group, read: Callable[[MeasuredRun], T | None]) -> T | None:
    """The first value of a run that has one."""
    return next((value for run in group if (value := read(run)) is not None), None)


def _ceiling_row(group: Group) -> list[Any] | None:
    if (ceilings := _first(group, lambda run: run.ceilings)) is None:
        return None
    rates = [_product(ceilings, name) for name in PRODUCTS]
    return [_label(group[0].spec), *rates, ceilings.copy_gb_per_s, ceilings.collectives or None]


def _product(ceilings: Ceilings, name: str) -> dict[str, float]:
    """TFLOPS over all three passes, which have equally many FLOPs, in each precision."""
    gemm = next(gemm for gemm in ceilings.gemms if gemm.name == name)
    return {number: len(PASSES) / sum(1 / by[each] for each in PASSES) for number, by in gemm.tflops.items()}


def _bound_row(group: Group) -> list[Any] | None:
    if (bound := _first(group, lambda run: run.metrics.bound)) is None:
        return None
    parts = (bound.matmul_s, bound.attention_s, bound.rest_s)
    return [_label(group[0].spec), bound.step_s, *((part, 100 * part / bound.step_s) for part in parts)]


def _breakdown_row(group: Group) -> list[Any] | None:
    if (breakdown := _first(group, lambda run: run.metrics.breakdown)) is None:
        return None
    parts = (breakdown.matmul_s, breakdown.attention_s, breakdown.other_s, breakdown.communication_s, breakdown.idle_s)
    return [
        _label(group[0].spec),
        breakdown.step_s,
        *(100 * part / breakdown.step_s for part in parts),
        breakdown.hidden_s,
    ]


def _state_row(group: Group) -> list[Any] | None:
    if (state := _first(group, lambda run: run.metrics.telemetry)) is None:
        return None
    worst = _first(group, _fault) or "not throttled"
    numbers = (state.sm_clock_mhz, state.sm_clock_min_mhz, state.power_w, state.power_limit_w, state.temperature_c)
    return [_label(group[0].spec), *numbers, state.memory_gib, state.reasons, worst]


def _condition_row(group: Group) -> list[Any]:
    spec, layout = group[0].spec, group[0].spec.layout
    cut = f"tp {layout.tp}, pp {layout.pp}, cp {layout.cp}, vp {layout.vp}, ep {layout.ep}, dp {spec.dp}"
    batch = f"sequence {spec.seq_length}, global batch {spec.gbs}, micro-batch {spec.mbs}; {cut}"
    if spec.training.optimizer.precision_aware:
        batch += f"; moments of Adam in {spec.training.optimizer.exp_avg}, {spec.training.optimizer.exp_avg_sq}"
    links = " ".join(f"[{n}](../results/measured/{run.name})" for n, run in enumerate(group, start=1))
    machine = f"{group[0].machine}; {spec.framework}, image {spec.container_image or 'none'}"
    return [_label(spec), batch, machine, links]


def _fault(run: MeasuredRun) -> str | None:
    return run.metrics.telemetry.fault if run.metrics.telemetry else None


def _values(group: Group, metric: Metric) -> list[float]:
    return [value for run in group if (value := run.metrics.metrics[metric.key]) is not None]


if __name__ == "__main__":
    click.echo(page(load_measured(), load_references()), nl=False)
