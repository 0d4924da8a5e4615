"""docs/measured.md: our measurements beside published numbers."""

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

from benchrun import hardware
from benchrun.comparison.choice import usable
from benchrun.comparison.conditions import SOFT, Conditions, conditions, differences, hard_differences
from benchrun.comparison.measured import MeasuredRun, repeats
from benchrun.comparison.references import Reference
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.metrics.bound import Bound
from benchrun.metrics.registry import Metric, tabled
from benchrun.metrics.telemetry import Telemetry, percent
from benchrun.model.flops import flops_per_token
from benchrun.model.operators import PASSES
from benchrun.recipe.catalogue import training_file
from benchrun.report.frameworks import Measured, losses, side_by_side
from benchrun.report.runs import SPREAD, layout, proxy, spread_percent, valid_values
from benchrun.report.scaling import Curve, curves
from benchrun.report.table import Table, markdown, markdown_rows
from benchrun.spec.artifacts import Breakdown, Ceilings, Gemm
from benchrun.spec.runspec import TrainingSpec

T = TypeVar("T")
Group = Sequence[MeasuredRun]
"""Repeats of one point."""
TEXT = Path(__file__).with_suffix(".md.in")
"""The page: each section has a placeholder for the rows of its table. A section without rows is left out."""
EMPTY = "\nNothing is kept there yet.\n"
NOTHING = "-"


def page(runs: Sequence[MeasuredRun], published: Sequence[Reference]) -> str:
    """The whole page, in Markdown."""
    header, *sections = re.split(r"\n(?=## )", TEXT.read_text())
    if not runs:
        return header + EMPTY
    groups = sorted(repeats(runs), key=lambda group: _order(group[0].spec))
    tables = (
        markdown(_speeds(groups, published)),
        markdown(side_by_side([Measured(run.spec, run.metrics) for run in runs])),
        markdown(losses([(run.spec, run.losses) for run in runs])),
        markdown_rows(map(_curve, curves(groups))),
        _rows(groups, lambda run: run.ceilings, _ceilings),
        _rows(groups, lambda run: run.metrics.bound, _bound),
        _rows(groups, lambda run: run.metrics.breakdown, _breakdown),
        _rows(groups, lambda run: run.metrics.telemetry, _state),
        markdown_rows(map(_conditions, groups)),
    )
    filled = (text.partition("$")[0] + rows for text, rows in zip(sections, tables, strict=True) if rows)
    return "\n".join([header, *filled])


def _rows(
    groups: Sequence[Group], read: Callable[[MeasuredRun], T | None], cells: Callable[[T, Group], list[str]]
) -> str:
    """One row for each group with a run of which ``read`` gives something: the cells of the first such thing."""
    parts = [(group, next((part for run in group if (part := read(run)) is not None), None)) for group in groups]
    return markdown_rows([_label(group[0].spec), *cells(part, group)] for group, part in parts if part is not None)


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


def _speeds(groups: Sequence[Group], published: Sequence[Reference]) -> Table:
    # Without columns of what no run measured.
    metrics = [each for each in tabled() if any(run.metrics.metrics[each.key] is not None for g in groups for run in g)]
    first, *others = (metric.title or metric.key for metric in metrics)
    titles = ("workload", "precision", "GPUs", "batch", "runs", first, "spread", *others, "loss")
    beside = ("published tokens/s/GPU", "measured / published", "what differs: published -> measured")
    return Table((*titles, *beside), [_speed(group, published, metrics) for group in groups], NOTHING)


def _speed(group: Group, published: Sequence[Reference], metrics: Sequence[Metric]) -> list[str | None]:
    spec, run = group[0].spec, group[0].metrics
    values = {metric: valid_values(metric, [run.metrics.metrics for run in group]) for metric in metrics}
    medians = {metric.name: median(each) if each else None for metric, each in values.items()}
    time, *others = (metric.text(medians[metric.name], NOTHING) for metric in values)
    spread = next(spread_percent(each) for metric, each in values.items() if metric.name == SPREAD)
    return [
        *(_workload(spec) + (", throttled" if _fault(group) else ""), spec.precision),
        *(f"{spec.num_gpus} x {spec.gpu}", _batch(spec), str(len(group)), time),
        *("one run" if spread is None else f"{spread:.1f} %", *others),
        " -> ".join(NOTHING if loss is None else f"{loss:.4g}" for loss in (run.first_loss, run.final_loss)),
        *_beside(spec, published, medians["tokens_per_s_per_gpu"], medians["tflops_per_gpu"]),
    ]


def _beside(
    spec: TrainingSpec, published: Sequence[Reference], rate: float | None, tflops: float | None
) -> tuple[str | None, str | None, str | None]:
    """The published number, our ratio to it, and what differs."""
    near = nearest(spec, published)
    if near is None:
        return None, None, None
    source, ratio = near.entry.source, near.ratio(rate, tflops)
    whole = "" if near.whole_tflops is None else f" of the whole model: {near.whole_tflops:.0f} TFLOPS"
    shown = (NOTHING if ratio is None else f"{ratio:.2f}") + (" in TFLOPS" if whole else "")
    return (
        f"{near.entry.tokens_per_s_per_gpu:,.0f}{whole} ({source.who} {source.date})",
        shown,
        _what_differs(near.entry, conditions(spec)),
    )


SAME = ("recipe", "task", "precision", "seq_length", "num_layers", "dimensions")
"""Conditions that a published number shares with ours; its GPU is of the same generation."""


class Beside(NamedTuple):
    """One published number."""

    entry: Reference
    whole_tflops: float | None
    """Causal TFLOPS/GPU, where only the whole model was published: a token of it costs more, so FLOPs are compared."""

    def ratio(self, tokens_per_s: float | None, tflops: float | None) -> float | None:
        """Ours over theirs, given our tokens/s/GPU and causal TFLOPS/GPU."""
        value = tokens_per_s if self.whole_tflops is None else tflops
        return value / (self.whole_tflops or self.entry.tokens_per_s_per_gpu) if value else None


def nearest(spec: TrainingSpec, published: Sequence[Reference]) -> Beside | None:
    """The number with most matching conditions; ties go to the fastest.

    For a proxy without a published number it is the whole model's.
    """
    own = conditions(spec)
    if entry := _nearest(own, published):
        return Beside(entry, None)
    model = training_file(spec.recipe)[1].model
    whole = own.model_copy(update={"num_layers": model.num_layers, "dimensions": ()})
    if not spec.proxy or not (entry := _nearest(whole, published)):
        return None
    flops = flops_per_token(model, spec.seq_length, task=spec.task).causal
    return Beside(entry, entry.tokens_per_s_per_gpu * flops / 1e12)


def _nearest(own: Conditions, published: Sequence[Reference]) -> Reference | None:
    same = attrgetter(*SAME)

    def rank(entry: Reference) -> tuple[int, bool, bool, bool, int, float]:
        hard, flawed = hard_differences(entry.key, own), bool(set(entry.flags) - {"proxy"})
        other_gpu, other_network = entry.key.gpu != own.gpu, _one_node(entry.key) != _one_node(own)
        soft = len(differences(entry.key, own, ("framework",)))
        return len(hard), other_gpu, flawed, other_network, soft, -entry.tokens_per_s_per_gpu

    alike = (entry for entry in published if same(entry.key) == same(own) and entry.tokens_per_s_per_gpu)
    candidates = [entry for entry in alike if usable(entry) and _arch(entry.key) == _arch(own)]
    return min(candidates, key=rank, default=None)


def _arch(where: Conditions) -> str | None:
    return getattr(hardware.gpu(where.gpu), "arch", None)


def _one_node(where: Conditions) -> bool | None:
    gpu = hardware.gpu(where.gpu)
    return where.num_gpus <= gpu.gpus_per_node if gpu and where.num_gpus else None


def _what_differs(entry: Reference, own: Conditions) -> str:
    """Every differing condition, published -> ours."""
    differing = [*hard_differences(entry.key, own), *differences(entry.key, own, SOFT)]
    named = [f"{d.key} {'-' if d.theirs is None else d.theirs} -> {d.ours}" for d in differing]
    if entry.key.image and not own.image:
        named.append(f"image {entry.key.image} -> none")
    return ", ".join(named) or "nothing that is stated"


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
