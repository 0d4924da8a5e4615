"""docs/measured.md and measured.csv: our measurements beside published numbers."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.measured import MeasuredRun, grouped, repeats
from benchrun.judge.nearest import Nearest, nearest
from benchrun.judge.references import Reference
from benchrun.measure.bound import Bound
from benchrun.measure.metric import Metric
from benchrun.measure.registry import METRICS
from benchrun.measure.telemetry import Telemetry, percent
from benchrun.model.operators import PASSES
from benchrun.rundir.artifacts import Breakdown, Ceilings, Gemm
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.frameworks import POINT, TITLES, point_of
from benchrun.show.model import ReportModel
from benchrun.show.repeats import median_of, valid_values
from benchrun.show.runs import distinctions, layout_text, proxy, spread_percent
from benchrun.show.scaling import Curve, curves
from benchrun.show.table import Table, markdown

from .pictures import waterfalls
from .workloads import other_workloads

T = TypeVar("T")
Group = Sequence[MeasuredRun]
"""Repeats of one point."""
TEXT = Path(__file__).with_suffix(".md.in")
"""The page: ``$NAME`` stands for a table. A section whose table has no rows is left out."""
EMPTY = "\nNothing is kept there yet.\n"
NOTHING = "-"
COLUMNS = (
    *(
        "workload",
        "precision",
        "gpus",
        "batch",
        "runs",
        "step_time_s",
        "tokens_per_s_per_gpu",
        "tflops_per_gpu",
    ),
    *("mfu_percent", "published", "ratio", "ratio_of"),
    *("spread", "tokens_per_joule", "first_loss", "final_loss", "reference", "differs"),
    *("qkv_tflops", "proj_tflops", "fc1_tflops", "fc2_tflops", "logits_tflops"),
    *("copy_gb_per_s", "collectives_gb_per_s"),
    *("matmul_at_least_s", "attention_at_least_s", "rest_s"),
    *(
        "profiled_step_s",
        "matmul_s",
        "attention_s",
        "other_kernels_s",
        "communication_s",
        "idle_s",
        "hidden_s",
    ),
    *("clock_mhz", "lowest_clock_mhz", "power_w", "power_limit_w", "hottest_c", "used_memory_gib"),
    *("clock_reasons", "fault", "layout", "machine", "image", "run_ids"),
)
"""Columns of measured.csv; measured.md explains them."""


SLOWEST = 10
"""Proxies that have a row."""


def page(runs: Sequence[MeasuredRun], published: Sequence[Reference], report: ReportModel) -> str:
    """The whole page, in Markdown; ``report`` is on the same runs."""
    header, *sections = re.split(r"\n(?=## )", TEXT.read_text(encoding="utf-8"))
    if not runs:
        return header.split("\n\n")[0] + "\n" + EMPTY
    groups = _points(runs)
    whole = [group for group in groups if not group[0].spec.proxy]
    proxies = [group for group in groups if group[0].spec.proxy]
    tables = {
        "whole": _speeds(whole, published),
        "slowest": _slowest(_speeds(proxies, published)),
        "losses": losses([(run.spec, run.losses) for run in runs]),
        "scaling": Table(SCALING, [_curve(curve) for curve in curves(groups)]),
        "waterfalls": _waterfalls(report),
        **other_workloads(report.results),
    }
    filled = (_filled(text, tables) for text in sections)
    return "\n".join([header, *(text for text in filled if text)])


def _points(runs: Sequence[MeasuredRun]) -> list[Group]:
    return sorted(repeats(runs), key=lambda group: _order(group[0].spec))


def _filled(text: str, tables: dict[str, Table]) -> str:
    """A section with its table, if it has one; empty where that has no rows."""
    names = re.findall(r"^\$(\w+)$", text, re.M)
    if not names:
        return text
    (name,) = names
    return text.replace(f"${name}\n", markdown(tables[name])) if tables[name].rows else ""


def points(runs: Sequence[MeasuredRun], published: Sequence[Reference]) -> Table:
    """Every point that was trained, with all that is known of it: measured.csv."""
    groups = _points(runs)
    settings = _settings(groups)
    rows = []
    for group in groups:
        near = nearest(group[0].spec, published)
        ceilings = _first(group, lambda run: run.ceilings)
        bound = _first(group, lambda run: run.metrics.bound)
        step = _first(group, lambda run: run.metrics.breakdown)
        state = _first(group, lambda run: run.metrics.telemetry)
        row = [
            *_what(group, settings[group[0].name]),
            *_medians(group).values(),
            *_beside(group, near),
        ]
        row += [
            *_differs(group, near),
            *_ceilings(ceilings),
            *_seconds(bound, BOUND),
            *_seconds(step, BREAKDOWN),
        ]
        row += [*_state(state), _fault(group), *_conditions(group)]
        rows.append(row)
    return Table(COLUMNS, rows)


def _first(group: Group, read: Callable[[MeasuredRun], T | None]) -> T | None:
    """Value that ``read`` returns for the first run that has one."""
    return next((part for run in group if (part := read(run)) is not None), None)


def _seconds(document: Bound | Breakdown | None, fields: Sequence[str]) -> list[float | None]:
    return [getattr(document, field, None) for field in fields]


def _waterfalls(report: ReportModel) -> Table:
    """The seconds of each part in the drawn waterfalls."""
    drawn = waterfalls(report)
    parts = [{row[0]: row[1] for row in plot.table.rows} for plot in drawn]
    names = dict.fromkeys(name for each in parts for name in each if name != "the measured step")
    rows = (
        [(name, *(each.get(name) for each in parts)) for name in (*names, "the measured step")]
        if drawn
        else []
    )
    return Table(("seconds of a step", *(plot.title for plot in drawn)), rows, NOTHING)


def _curve(curve: Curve) -> list[str]:
    spec, base = curve.spec, curve.rates[min(curve.rates)]
    return [
        *(f"{_workload(spec)} {spec.precision} {spec.gpu}", curve.kind),
        ", ".join(f"{batch:,}" for batch in curve.batches),
        ", ".join(f"{count}: {rate:,.0f}" for count, rate in curve.rates.items()),
        ", ".join(f"{100 * rate / base:.1f} %" for rate in curve.rates.values()),
    ]


def _ceilings(ceilings: Ceilings | None) -> list[str | float | None]:
    if ceilings is None:
        return [None] * 7
    products = {gemm.name: gemm for gemm in ceilings.gemms}
    rates = [
        f"{c.name} {c.bus_gb_per_s:.4g} ({c.ranks} of {c.group})" for c in ceilings.collectives
    ]
    tflops = [_tflops(products[name]) for name in ("qkv", "proj", "fc1", "fc2", "logits")]
    return [*tflops, ceilings.copy_gb_per_s, ", ".join(rates) or None]


def _tflops(gemm: Gemm) -> str:
    """TFLOPS over all three passes, which have equally many FLOPs, in each precision."""
    rates = {
        number: len(PASSES) / sum(1 / by[each] for each in PASSES)
        for number, by in gemm.tflops.items()
    }
    return ", ".join(f"{number} {rate:.0f}" for number, rate in rates.items())


def _state(state: Telemetry | None) -> list[float | str | None]:
    if state is None:
        return [None] * 7
    readings = (
        state.sm_clock_mhz,
        state.sm_clock_min_mhz,
        state.power_w,
        state.power_limit_w,
        state.temperature_c,
    )
    reasons = (
        ", ".join(f"{name} {percent(share)}" for name, share in state.reasons.items()) or "none"
    )
    return [*readings, state.memory_gib, reasons]


def _conditions(group: Group) -> list[str | None]:
    spec, adam = group[0].spec, group[0].spec.training.optimizer
    batch = f"sequence {spec.seq_length}; {layout_text(spec)}"
    if adam.precision_aware:
        batch += f"; moments of Adam in {adam.exp_avg}, {adam.exp_avg_sq}"
    return [batch, group[0].machine, spec.container_image, " ".join(run.name for run in group)]


SPEED = {
    name: METRICS[name]
    for name in ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_percent")
}
"""Metrics of the speed tables."""
SPEEDS = (
    *(
        "workload",
        "precision",
        "GPUs",
        "batch",
        "runs",
        *(metric.title for metric in SPEED.values()),
    ),
    *("published", "measured / published"),
)
SCALING = ("workload", "scaling", "global batch", "GPUs: tokens/s/GPU", "efficiency")
BOUND = ("matmul_s", "attention_s", "rest_s")
BREAKDOWN = (
    "step_s",
    "matmul_s",
    "attention_s",
    "other_s",
    "communication_s",
    "idle_s",
    "hidden_s",
)
"""Fields of a document of a run."""


def _speeds(groups: Sequence[Group], published: Sequence[Reference]) -> Table:
    """One row per point; those that look the same also with the settings that tell them apart."""
    settings = _settings(groups)
    rows = [
        _speed(group, nearest(group[0].spec, published), settings[group[0].name])
        for group in groups
    ]
    return Table(SPEEDS, rows, NOTHING)


def _slowest(speeds: Table) -> Table:
    """The slowest points beside the published numbers."""
    compared = [row for row in speeds.rows if row[-1]]
    compared.sort(key=lambda row: float(row[-1].partition(" ")[0]))
    return Table(speeds.titles, compared[:SLOWEST], NOTHING)


def _settings(groups: Sequence[Group]) -> dict[str, str]:
    """The settings that tell points that look the same apart, by the name of their first run."""
    settings: dict[str, str] = {}
    for same in grouped((group[0] for group in groups), lambda run: _label(run.spec)):
        settings |= zip(
            (run.name for run in same), distinctions([run.spec for run in same]), strict=True
        )
    return settings


def _speed(group: Group, near: Nearest | None, settings: str) -> list[str | None]:
    _, ratio, unit = _beside(group, near)
    medians = _medians(group)
    return [
        *_what(group, settings),
        *(metric.text(medians[name], NOTHING) for name, metric in SPEED.items()),
        _published(near) if near else None,
        None if ratio is None else f"{ratio:.2f}" + (" in TFLOPS" if unit == "TFLOPS" else ""),
    ]


def _what(group: Group, settings: str) -> list[str]:
    spec = group[0].spec
    workload = _workload(spec) + (", throttled" if _fault(group) else "")
    batch = "; ".join(filter(None, (_batch(spec), settings)))
    return [workload, spec.precision, f"{spec.num_gpus} x {spec.gpu}", batch, str(len(group))]


def _medians(group: Group) -> dict[str, float | None]:
    return {name: _median(group, metric) for name, metric in SPEED.items()}


def _beside(group: Group, near: Nearest | None) -> list[Any]:
    """The published number, the ratio to it, and the unit of both."""
    if near is None:
        return [None, None, None]
    medians = _medians(group)
    value = near.measured(medians["tokens_per_s_per_gpu"], medians["tflops_per_gpu"])
    unit = "tokens/s/GPU" if near.whole_tflops is None else "TFLOPS"
    return [_published(near), value / near.published if value else None, unit]


def _median(group: Group, metric: Metric) -> float | None:
    return median_of(metric.key, [run.metrics for run in group])


def _published(near: Nearest) -> str:
    """The value, the GPUs and the source; of a whole model beside a proxy the unit too."""
    key, source = near.entry.key, near.entry.source
    unit = "" if near.whole_tflops is None else " TFLOPS of the whole model"
    return f"{near.published:,.0f}{unit} ({key.num_gpus} x {key.gpu}, {source.who} {source.date})"


def _differs(group: Group, near: Nearest | None) -> list[str | float | None]:
    run = group[0].metrics
    spread = spread_percent(valid_values("step_time_s", [each.metrics for each in group]))
    return [
        None if spread is None else f"{spread:.1f} %",
        _median(group, METRICS["tokens_per_joule"]),
        *(run.first_loss, run.final_loss),
        near.entry.id if near else None,
        (", ".join(near.differs) or "nothing that is stated") if near else None,
    ]


def _order(spec: TrainingSpec) -> tuple[str, int, str, str, int, int, float]:
    return (
        spec.recipe,
        spec.model.num_layers,
        spec.gpu,
        spec.precision,
        spec.num_gpus,
        spec.gbs,
        spec.training.lr,
    )


def _label(spec: TrainingSpec) -> str:
    return f"{_workload(spec)} {spec.precision} {spec.num_gpus} x {spec.gpu}, batch {_batch(spec)}"


def _workload(spec: TrainingSpec) -> str:
    framework = "" if FRAMEWORKS[spec.framework].own_worker else f", {spec.framework}"
    return (
        proxy(spec)
        + framework
        + (", attention in FP8" if spec.training.fp8.dot_product_attention else "")
    )


def _batch(spec: TrainingSpec) -> str:
    return f"{spec.gbs} (mbs {spec.mbs}, lr {spec.training.lr:g})"


def _fault(group: Group) -> str | None:
    """The fault that lowered the clocks of the first run that has one."""
    states = (run.metrics.telemetry for run in group)
    return next((fault for state in states if state and (fault := state.fault)), None)


def losses(runs: Sequence[tuple[TrainingSpec, Sequence[float]]]) -> Table:
    """The losses of each framework at some steps, for points whose frameworks read the
    same files of tokens.

    ``difference`` is the largest over the steps, in nats, from the median of the
    point's frameworks.
    """
    points: dict[tuple[Any, ...], dict[str, Sequence[float]]] = {}
    for spec, each in runs:
        if spec.reads_files and each:
            points.setdefault((*point_of(spec), spec.data_set, spec.training.steps), {})[
                spec.framework
            ] = each
    rows = []
    for point, by_framework in points.items():
        if len(by_framework) > 1:
            middle = []
            for each in zip(*by_framework.values(), strict=False):
                middle.append(median(each))
            for name, each in by_framework.items():
                rows.append([*point[: POINT - 1], name, *_loss_cells(each, middle)])
    return Table(
        (*TITLES[: POINT - 1], "framework", "first", "a third", "two thirds", "last", "difference"),
        rows,
    )


def _loss_cells(losses: Sequence[float], middle: Sequence[float]) -> list[str]:
    steps = len(middle)
    shown = (losses[step] for step in (0, steps // 3, 2 * steps // 3, steps - 1))
    found = []
    for value in (*shown, max(abs(a - b) for a, b in zip(losses, middle, strict=False))):
        found.append(f"{value:.4f}")
    return found
