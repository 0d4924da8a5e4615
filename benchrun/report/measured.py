"""docs/measured.md: what we measured, beside what was published. ``python -m benchrun.report.measured`` prints it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import click

from benchrun.compare.measured import MeasuredRun, load_measured, repeats
from benchrun.compare.references import Reference, load_references
from benchrun.metrics.telemetry import percent
from benchrun.model.operators import PASSES
from benchrun.report.beside import Beside, nearest, what_differs
from benchrun.report.scaling import Curve, curves
from benchrun.spec.artifacts import Ceilings
from benchrun.spec.runspec import RunSpec

HEADER = """\
# Measured

Made from [results/measured](../results/measured) by `python -m benchrun.report.measured`; do not edit it here. Every
run was launched by `benchrun launch`, and its log lies there: `benchrun parse` gives these numbers again.
"""
EMPTY = "\nNothing is kept there yet.\n"
COLUMNS = (
    *(
        "workload",
        "precision",
        "GPUs",
        "batch",
        "runs",
        "step time s",
        "spread",
        "tokens/s/GPU",
        "TFLOPS/GPU",
        "MFU",
        "tokens/J",
        "loss",
    ),
    *("published tokens/s/GPU", "ours / theirs", "what differs: theirs -> ours"),
)
CEILING_COLUMNS = ("run", "qkv", "proj", "fc1", "fc2", "logits", "copy", "collectives")
SCALING_COLUMNS = ("workload", "scaling", "global batch", "GPUs: tokens/s/GPU", "efficiency")
BOUND_COLUMNS = ("run", "step s", "matmul", "attention at least", "rest")
BREAKDOWN_COLUMNS = (
    *("run", "step s", "matmul", "attention", "other kernels", "communication alone", "nothing"),
    "communication hidden s",
)
STATE_COLUMNS = ("run", "clock MHz", "lowest", "W", "limit W", "hottest C", "memory GiB", "reasons", "state")
SPEEDS = """
## Speed

Medians over the runs of a row; `batch` is the global one in sequences, with the micro-batch (mbs) and the learning rate
(lr), `spread` from the slowest to the fastest. TFLOPS and MFU count the causal half of the scores; MFU divides by the
dense peak of the run's precision. Tokens a joule count the GPUs' boards alone. The loss is that of the first and of the
last step, on synthetic tokens, without a warm-up. Beside ours the published number that shares most conditions, of
those with the same model, precision, sequence and GPU generation. Where that had eight GPUs or more, ours have a GPU's
share of it on fewer.
A proxy that nobody published stands beside the whole model, and TFLOPS are compared.
"""
SCALING = """
## More and more GPUs

Within a node, with the same layout and training. Weak: the same number of sequences a GPU; strong: the same global
batch. Efficiency is tokens/s/GPU over that of the fewest GPUs. Points can be of different machines of a kind (the day
and hour stand in a run's name). On more GPUs than a row names it was not measured.
"""
CEILINGS = """
## Ceilings

What the machine reached alone, before the first step, on all GPUs at once: matrix products at the model's own shapes in
TFLOPS (over forward, input gradient and weight gradient), copies on the device (read + written), collectives in bus
bandwidth as nccl-tests count it; in GB/s (10^9).
"""
BOUNDS = """
## What bounds a run

Of a step: its matrix products if they all ran at the ceiling, attention at the speed of the fastest product (no kernel
reaches it), and what is left: slower attention, what is computed again, memory-bound kernels, exposed communication,
optimizer, gaps. A ceiling is that of one product after the other, at the power limit: between other kernels a product
may be faster, and then the step spends less on them than it says here, and more on the rest.
"""
BREAKDOWNS = """
## Where a step's time goes

One more step after the measured ones, seen by the profiler of torch; the mean over ranks. Where kernels overlap, the
time is the first's. Communication alone is also waiting for other ranks. Nothing: the GPU waited for the CPU.
"""
STATE = """
## The GPUs meanwhile

Sampled once a second over the measured steps. A GPU at its power limit lowers its clock (`power_cap`): that is how it
works at full load. *Throttled* is one that its temperature or its supply slowed down.
"""
NOTHING = "-"


def page(runs: Sequence[MeasuredRun], published: Sequence[Reference]) -> str:
    """The whole page."""
    if not runs:
        return HEADER + EMPTY
    groups = sorted(repeats(runs), key=lambda group: _order(group[0].spec))
    speeds = _table(COLUMNS, [_speed_row(group, published) for group in groups])
    ceilings = [row for group in groups if (row := _ceiling_row(group))]
    bounds = [row for group in groups if (row := _bound_row(group))]
    breakdowns = [row for group in groups if (row := _breakdown_row(group))]
    states = [row for group in groups if (row := _state_row(group))]
    parts = [HEADER, SPEEDS, "\n", speeds]
    if scaling := [_scaling_row(curve) for curve in curves(groups)]:
        parts += [SCALING, "\n", _table(SCALING_COLUMNS, scaling)]
    if ceilings:
        parts += [CEILINGS, "\n", _table(CEILING_COLUMNS, ceilings)]
    if bounds:
        parts += [BOUNDS, "\n", _table(BOUND_COLUMNS, bounds)]
    if breakdowns:
        parts += [BREAKDOWNS, "\n", _table(BREAKDOWN_COLUMNS, breakdowns)]
    if states:
        parts += [STATE, "\n", _table(STATE_COLUMNS, states)]
    return "".join(
        [*parts, "\n## Conditions\n\n", _table(("run", "batch and layout", "machine", "where"), _facts(groups))]
    )


def _order(spec: RunSpec) -> tuple[str, int, str, str, int, int, float]:
    return spec.recipe, spec.model.num_layers, spec.gpu, spec.precision, spec.num_gpus, spec.gbs, spec.training.lr


def _label(spec: RunSpec) -> str:
    return f"{_workload(spec)} {spec.precision} {spec.num_gpus} x {spec.gpu}, batch {_batch(spec)}"


def _workload(spec: RunSpec) -> str:
    proxy = f" (proxy: {', '.join(spec.reduced)})" if spec.proxy else ""
    return spec.recipe + proxy + (", attention in FP8" if spec.training.fp8.dot_product_attention else "")


def _batch(spec: RunSpec) -> str:
    return f"{spec.gbs} (mbs {spec.mbs}, lr {spec.training.lr:g})"


def _speed_row(group: Sequence[MeasuredRun], published: Sequence[Reference]) -> list[str]:
    spec = group[0].spec
    times = _values(group, lambda run: run.metrics.step_time_s.median if run.metrics.step_time_s else None)
    rate = _middle(_values(group, lambda run: run.metrics.tokens_per_s_per_gpu.median))
    tflops = _middle(
        _values(group, lambda run: run.metrics.tflops_per_gpu.causal if run.metrics.tflops_per_gpu else None)
    )
    mfu = _middle(_values(group, lambda run: run.metrics.mfu[0].causal if run.metrics.mfu else None))
    joule = _middle(
        _values(group, lambda run: run.metrics.telemetry.tokens_per_joule if run.metrics.telemetry else None)
    )
    time = _middle(times)
    theirs = nearest(spec, published)
    return [
        _workload(spec) + (", throttled" if any(_fault(run) for run in group) else ""),
        spec.precision,
        f"{spec.num_gpus} x {spec.gpu}",
        _batch(spec),
        str(len(group)),
        _said(time, ".4g"),
        f"{100 * (max(times) - min(times)) / time:.1f} %" if time and len(times) > 1 else "one run",
        _said(rate, ",.0f"),
        _said(tflops, ".0f"),
        f"{100 * mfu:.1f} %" if mfu else NOTHING,
        _said(joule, ".3g"),
        f"{_said(group[0].metrics.first_loss, '.4g')} -> {_said(group[0].metrics.final_loss, '.4g')}",
        *(_published(theirs, rate, tflops, spec) if theirs else [NOTHING] * 3),
    ]


def _published(theirs: Beside, rate: float | None, tflops: float | None, spec: RunSpec) -> list[str]:
    """Their number, ours over it, and what differs."""
    source = f"({theirs.entry.source.who} {theirs.entry.source.date})"
    ratio = _said(theirs.ratio(rate, tflops), ".2f")
    if theirs.whole_tflops is None:
        return [f"{theirs.tokens_per_s:,.0f} {source}", ratio, what_differs(theirs.entry, spec)]
    number = f"{theirs.tokens_per_s:,.0f} of the whole model: {theirs.whole_tflops:.0f} TFLOPS {source}"
    return [number, f"{ratio} in TFLOPS", what_differs(theirs.entry, spec)]


def _scaling_row(curve: Curve) -> list[str]:
    spec, base = curve.spec, curve.rates[min(curve.rates)]
    return [
        f"{_workload(spec)} {spec.precision} {spec.gpu}",
        curve.kind,
        ", ".join(f"{batch:,}" for batch in curve.batches),
        ", ".join(f"{count}: {rate:,.0f}" for count, rate in curve.rates.items()),
        ", ".join(f"{100 * rate / base:.1f} %" for rate in curve.rates.values()),
    ]


def _ceiling_row(group: Sequence[MeasuredRun]) -> list[str] | None:
    """Of the first run that measured them."""
    found = next((run for run in group if run.ceilings), None)
    if found is None or found.ceilings is None:
        return None
    ceilings = found.ceilings
    collectives = [f"{c.name} {c.bus_gb_per_s:.4g} ({c.ranks} of {c.group})" for c in ceilings.collectives]
    products = [_product(ceilings, name) for name in ("qkv", "proj", "fc1", "fc2", "logits")]
    return [_label(found.spec), *products, f"{ceilings.copy_gb_per_s:,.0f}", ", ".join(collectives) or NOTHING]


def _product(ceilings: Ceilings, name: str) -> str:
    """The rate over all three passes, which have equally many FLOPs, in each precision."""
    gemm = next(gemm for gemm in ceilings.gemms if gemm.name == name)
    rates = {number: len(PASSES) / sum(1 / by[each] for each in PASSES) for number, by in gemm.tflops.items()}
    return ", ".join(f"{number} {rate:,.0f}" for number, rate in rates.items())


def _bound_row(group: Sequence[MeasuredRun]) -> list[str] | None:
    found = next((run for run in group if run.metrics.bound), None)
    if found is None or found.metrics.bound is None:
        return None
    bound = found.metrics.bound
    parts = (bound.matmul_s, bound.attention_s, bound.rest_s)
    shares = [f"{part:.3g} s, {100 * part / bound.step_s:.0f} %" for part in parts]
    return [_label(found.spec), f"{bound.step_s:.4g}", *shares]


def _breakdown_row(group: Sequence[MeasuredRun]) -> list[str] | None:
    found = next((run.metrics.breakdown for run in group if run.metrics.breakdown), None)
    if found is None:
        return None
    parts = (found.matmul_s, found.attention_s, found.other_s, found.communication_s, found.idle_s)
    shares = [f"{100 * part / found.step_s:.1f} %" for part in parts]
    return [_label(group[0].spec), f"{found.step_s:.4g}", *shares, f"{found.hidden_s:.3g}"]


def _state_row(group: Sequence[MeasuredRun]) -> list[str] | None:
    found = next((run.metrics.telemetry for run in group if run.metrics.telemetry), None)
    if found is None:
        return None
    worst = next((fault for run in group if (fault := _fault(run))), "not throttled")
    numbers = (found.sm_clock_mhz, found.sm_clock_min_mhz, found.power_w, found.power_limit_w, found.temperature_c)
    reasons = ", ".join(f"{name} {percent(share)}" for name, share in found.reasons.items())
    shown = [_said(value, ".0f") for value in numbers]
    return [_label(group[0].spec), *shown, _said(found.memory_gib, ".1f"), reasons or "none", worst]


def _facts(groups: Sequence[Sequence[MeasuredRun]]) -> list[list[str]]:
    rows = []
    for group in groups:
        spec, layout = group[0].spec, group[0].spec.layout
        cut = f"tp {layout.tp}, pp {layout.pp}, cp {layout.cp}, vp {layout.vp}, ep {layout.ep}, dp {spec.dp}"
        batch = f"sequence {spec.seq_length}, global batch {spec.gbs}, micro-batch {spec.mbs}; {cut}"
        if spec.training.optimizer.precision_aware:
            batch += f"; moments of Adam in {spec.training.optimizer.exp_avg}, {spec.training.optimizer.exp_avg_sq}"
        links = " ".join(f"[{n}](../results/measured/{run.name})" for n, run in enumerate(group, start=1))
        rows.append(
            [
                _label(spec),
                batch,
                f"{group[0].machine}; {spec.framework}, image {spec.container_image or 'none'}",
                links,
            ]
        )
    return rows


def _fault(run: MeasuredRun) -> str | None:
    return run.metrics.telemetry.fault if run.metrics.telemetry else None


def _values(group: Sequence[MeasuredRun], value: Callable[[MeasuredRun], float | None]) -> list[float]:
    return [found for run in group if (found := value(run)) is not None]


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _said(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    click.echo(page(load_measured(), load_references()), nl=False)
