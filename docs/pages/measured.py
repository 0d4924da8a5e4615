"""docs/measured.md: our measurements beside published numbers."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from benchrun.capabilities.history.series import launch_time
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.measured import MeasuredRun, grouped, repeats
from benchrun.judge.nearest import Nearest, nearest
from benchrun.judge.references import Reference
from benchrun.measure.bound import Bound
from benchrun.measure.registry import METRICS, Metric
from benchrun.measure.telemetry import Telemetry, percent
from benchrun.model.operators import PASSES
from benchrun.rundir.artifacts import Breakdown, Ceilings, Gemm, trained_with
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.frameworks import ValidRun, losses, side_by_side
from benchrun.show.model import ReportModel
from benchrun.show.repeats import median_of, valid_values
from benchrun.show.runs import distinctions, layout, proxy, spread_percent
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
TITLES = {
    "scaling": ("workload", "scaling", "global batch", "GPUs: tokens/s/GPU", "efficiency"),
    "ceilings": ("run", "qkv", "proj", "fc1", "fc2", "logits", "copy", "collectives"),
    "bounds": ("run", "step s", "matmul", "attention at least", "rest"),
    "breakdowns": (
        *("run", "step s", "matmul", "attention", "other kernels", "communication alone", "nothing"),
        "communication hidden s",
    ),
    "state": ("run", "clock MHz", "lowest", "W", "limit W", "hottest C", "memory GiB", "reasons", "state"),
    "conditions": ("run", "batch and layout", "machine", "where"),
}


def page(runs: Sequence[MeasuredRun], published: Sequence[Reference], report: ReportModel) -> str:
    """The whole page, in Markdown; ``report`` is on the same runs."""
    header, *sections = re.split(r"\n(?=## )", TEXT.read_text(encoding="utf-8"))
    if not runs:
        return header.split("\n\n")[0] + "\n" + EMPTY
    tables = _tables(sorted(repeats(runs), key=lambda group: _order(group[0].spec)), runs, published, report)
    filled = (_filled(text, tables) for text in sections)
    return "\n".join([header, *(text for text in filled if text)])


def _filled(text: str, tables: dict[str, Table]) -> str:
    """A section with its table; empty where that has no rows."""
    (name,) = re.findall(r"^\$(\w+)$", text, re.M)
    return text.replace(f"${name}\n", markdown(tables[name])) if tables[name].rows else ""


def _tables(
    groups: Sequence[Group], runs: Sequence[MeasuredRun], published: Sequence[Reference], report: ReportModel
) -> dict[str, Table]:
    """Every table by its name in the text."""
    beside = [(group, nearest(group[0].spec, published)) for group in groups]
    settings = _settings(groups)
    rows: dict[str, Iterable[Sequence[str]]] = {
        "scaling": map(_curve, curves(groups)),
        "ceilings": _rows(groups, lambda run: run.ceilings, _ceilings),
        "bounds": _rows(groups, lambda run: run.metrics.bound, _bound),
        "breakdowns": _rows(groups, lambda run: run.metrics.breakdown, _breakdown),
        "state": _rows(groups, lambda run: run.metrics.telemetry, _state),
        "conditions": map(_conditions, groups),
    }
    return {
        "whole": _speeds([pair for pair in beside if not pair[0][0].spec.proxy]),
        "proxies": _speeds([pair for pair in beside if pair[0][0].spec.proxy]),
        "differs": Table(DIFFERS, [_differs(group, near, settings) for group, near in beside], NOTHING),
        "frameworks": side_by_side(list(map(_measured, runs))),
        "losses": losses([(run.spec, run.losses) for run in runs]),
        "waterfalls": _waterfalls(report),
        **other_workloads(report.results),
        **{name: Table(TITLES[name], list(each)) for name, each in rows.items()},
    }


def _measured(run: MeasuredRun) -> ValidRun:
    return ValidRun(run.spec, run.metrics, run.fingerprint, launch_time(run.name), trained_with(run.env))


def _rows(
    groups: Sequence[Group], read: Callable[[MeasuredRun], T | None], cells: Callable[[T, Group], list[str]]
) -> list[list[str]]:
    """One row for each group with a run of which ``read`` gives something: the cells of the first such thing."""
    parts = [(group, next((part for run in group if (part := read(run)) is not None), None)) for group in groups]
    return [[_label(group[0].spec), *cells(part, group)] for group, part in parts if part is not None]


def _waterfalls(report: ReportModel) -> Table:
    """The seconds of each part in the drawn waterfalls."""
    drawn = waterfalls(report)
    parts = [{row[0]: row[1] for row in plot.table.rows} for plot in drawn]
    names = dict.fromkeys(name for each in parts for name in each if name != "the measured step")
    rows = [(name, *(each.get(name) for each in parts)) for name in (*names, "the measured step")] if drawn else []
    return Table(("seconds of a step", *(plot.title for plot in drawn)), rows, NOTHING)


def _curve(curve: Curve) -> list[str]:
    spec, base = curve.spec, curve.rates[min(curve.rates)]
    return [
        *(f"{_workload(spec)} {spec.precision} {spec.gpu}", curve.kind),
        ", ".join(f"{batch:,}" for batch in curve.batches),
        ", ".join(f"{count}: {rate:,.0f}" for count, rate in curve.rates.items()),
        ", ".join(f"{100 * rate / base:.1f} %" for rate in curve.rates.values()),
    ]


def _ceilings(ceilings: Ceilings, _: Group) -> list[str]:
    products = {gemm.name: gemm for gemm in ceilings.gemms}
    rates = [f"{c.name} {c.bus_gb_per_s:.4g} ({c.ranks} of {c.group})" for c in ceilings.collectives]
    tflops = [_tflops(products[name]) for name in ("qkv", "proj", "fc1", "fc2", "logits")]
    return [*tflops, f"{ceilings.copy_gb_per_s:,.0f}", ", ".join(rates) or NOTHING]


def _tflops(gemm: Gemm) -> str:
    """TFLOPS over all three passes, which have equally many FLOPs, in each precision."""
    rates = {number: len(PASSES) / sum(1 / by[each] for each in PASSES) for number, by in gemm.tflops.items()}
    return ", ".join(f"{number} {rate:,.0f}" for number, rate in rates.items())


def _bound(bound: Bound, _: Group) -> list[str]:
    parts = (bound.matmul_s, bound.attention_s, bound.rest_s)
    return [f"{bound.step_s:.4g}", *(f"{part:.3g} s, {100 * part / bound.step_s:.0f} %" for part in parts)]


def _breakdown(step: Breakdown, _: Group) -> list[str]:
    parts = (step.matmul_s, step.attention_s, step.other_s, step.communication_s, step.idle_s)
    shares = (f"{100 * part / step.step_s:.1f} %" for part in parts)
    return [f"{step.step_s:.4g}", *shares, f"{step.hidden_s:.3g}"]


def _state(state: Telemetry, group: Group) -> list[str]:
    readings = (state.sm_clock_mhz, state.sm_clock_min_mhz, state.power_w, state.power_limit_w, state.temperature_c)
    numbers = [*((reading, ".0f") for reading in readings), (state.memory_gib, ".1f")]
    reasons = ", ".join(f"{name} {percent(share)}" for name, share in state.reasons.items()) or "none"
    cells = [NOTHING if reading is None else f"{reading:{form}}" for reading, form in numbers]
    return [*cells, reasons, _fault(group) or "not throttled"]


def _conditions(group: Group) -> list[str]:
    spec, adam = group[0].spec, group[0].spec.training.optimizer
    batch = f"sequence {spec.seq_length}, global batch {spec.gbs}, micro-batch {spec.mbs}; {layout(spec)}"
    if adam.precision_aware:
        batch += f"; moments of Adam in {adam.exp_avg}, {adam.exp_avg_sq}"
    links = " ".join(f"[{n}](../results/measured/{run.name})" for n, run in enumerate(group, start=1))
    machine = f"{group[0].machine}; {spec.framework}, image {spec.container_image or 'none'}"
    return [_label(spec), batch, machine, links]


SPEED = {name: METRICS[name] for name in ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_percent")}
"""Metrics of the speed tables."""
SPEEDS = (
    *("workload", "precision", "GPUs", "batch", "runs", *(metric.title for metric in SPEED.values())),
    *("published", "measured / published"),
)
DIFFERS = ("run", "spread", "tokens/J", "loss", "published", "what differs: published -> measured")


def _speeds(beside: Sequence[tuple[Group, Nearest | None]]) -> Table:
    """One row per point; those that look the same also with the settings that tell them apart."""
    settings = _settings([group for group, _ in beside])
    rows = [_speed(group, near, settings[group[0].name]) for group, near in beside]
    return Table(SPEEDS, rows, NOTHING)


def _settings(groups: Sequence[Group]) -> dict[str, str]:
    """The settings that tell points that look the same apart, by the name of their first run."""
    settings: dict[str, str] = {}
    for same in grouped((group[0] for group in groups), lambda run: _label(run.spec)):
        settings |= zip((run.name for run in same), distinctions([run.spec for run in same]), strict=True)
    return settings


def _speed(group: Group, near: Nearest | None, settings: str) -> list[str | None]:
    spec, medians = group[0].spec, {name: _median(group, metric) for name, metric in SPEED.items()}
    value = near.measured(medians["tokens_per_s_per_gpu"], medians["tflops_per_gpu"]) if near else None
    return [
        *(_workload(spec) + (", throttled" if _fault(group) else ""), spec.precision),
        *(f"{spec.num_gpus} x {spec.gpu}", "; ".join(filter(None, (_batch(spec), settings))), str(len(group))),
        *(metric.text(medians[name], NOTHING) for name, metric in SPEED.items()),
        _published(near) if near else None,
        f"{value / near.published:.2f}{_in_tflops(near)}" if near and value else None,
    ]


def _in_tflops(near: Nearest) -> str:
    return "" if near.whole_tflops is None else " in TFLOPS"


def _median(group: Group, metric: Metric) -> float | None:
    return median_of(metric.key, [run.metrics for run in group])


def _published(near: Nearest) -> str:
    """The value, the GPUs and the source; of a whole model beside a proxy the unit too."""
    key, source = near.entry.key, near.entry.source
    unit = "" if near.whole_tflops is None else " TFLOPS of the whole model"
    return f"{near.published:,.0f}{unit} ({key.num_gpus} x {key.gpu}, {source.who} {source.date})"


def _differs(group: Group, near: Nearest | None, settings: Mapping[str, str]) -> list[str | None]:
    run = group[0].metrics
    spread = spread_percent(valid_values("step_time_s", [each.metrics for each in group]))
    energy = METRICS["tokens_per_joule"]
    return [
        "; ".join(filter(None, (_label(group[0].spec), settings[group[0].name]))),
        "one run" if spread is None else f"{spread:.1f} %",
        energy.text(_median(group, energy), NOTHING),
        " -> ".join(NOTHING if loss is None else f"{loss:.4g}" for loss in (run.first_loss, run.final_loss)),
        near.entry.id if near else None,
        (", ".join(near.differs) or "nothing that is stated") if near else None,
    ]


def _order(spec: TrainingSpec) -> tuple[str, int, str, str, int, int, float]:
    return spec.recipe, spec.model.num_layers, spec.gpu, spec.precision, spec.num_gpus, spec.gbs, spec.training.lr


def _label(spec: TrainingSpec) -> str:
    return f"{_workload(spec)} {spec.precision} {spec.num_gpus} x {spec.gpu}, batch {_batch(spec)}"


def _workload(spec: TrainingSpec) -> str:
    framework = "" if FRAMEWORKS[spec.framework].own_worker else f", {spec.framework}"
    return proxy(spec) + framework + (", attention in FP8" if spec.training.fp8.dot_product_attention else "")


def _batch(spec: TrainingSpec) -> str:
    return f"{spec.gbs} (mbs {spec.mbs}, lr {spec.training.lr:g})"


def _fault(group: Group) -> str | None:
    """The fault that lowered the clocks of the first run that has one."""
    states = (run.metrics.telemetry for run in group)
    return next((fault for state in states if state and (fault := state.fault)), None)
