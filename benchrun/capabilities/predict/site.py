"""A site's own calibration: from parts of its profiled steps, its GPUs' ceilings, and
its step times."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from benchrun.rundir.artifacts import Ceilings
from benchrun.vocabulary import Precision

from .choice import BITS
from .kinship import Kinship
from .prediction import Calibration, predict, usual
from .residuals import correction, solved
from .runs import COMMUNICATION, OTHER_KERNELS, Measured, profiled_parts

LEAST = 0.05
"""Parts below this share of a step change no constant."""
SAME = 0.005
"""A factor nearer to 1 than this changes no constant."""
REFERENCE_LAYERS = ("qkv", "proj", "fc1", "fc2")
"""Products of the ceilings that are compared."""
USUAL_CEILINGS = {"products.hopper.16": 0.685, "products.hopper.8": 0.616, "memory.hopper": 0.886}
"""Share of the peak that the kept runs' ceilings reached alone (median over the
runs)."""
Factors = Iterator[tuple[str, float]]
"""Names of constants, and by how much one run changes them."""


def calibrated(measured: Sequence[Measured]) -> tuple[Calibration, list[str]]:
    """The calibration with the runs of a site, and a line for each constant that
    changed."""
    base = usual()
    changes = []
    values = dict(base.values)
    inside: list[tuple[str, float]] = []
    alone: list[tuple[str, float]] = []
    for run in measured:
        inside += _of_breakdown(run, base)
        alone += _of_ceilings(run)
    changed = set()
    # A product inside a step tells more than the same product alone.
    for origin, factors in (("breakdowns", inside), ("ceilings", alone)):
        for name, factor in _medians(factors, base).items():
            if name not in changed:
                old = values[name]
                values[name] *= factor
                changes.append(f"{name}: {old:.3g} -> {values[name]:.3g}, from the {origin}")
                changed.add(name)
    tuned = Calibration(values, base.rows, f"runs: {len(measured)}")
    misses = []
    for run in measured:
        before = predict(run.load, base)
        expected = sum(predict(run.load, tuned).parts.values())
        # The known rows already correct the median: what is left is added to that of
        # these runs.
        usual_miss = correction(run.load, tuned.rows, tuned.spread).median
        misses.append(float(np.log(run.step_s / expected) + usual_miss))
        change = 100 * (run.step_s / before.median - 1)
        gpus = "1 GPU"
        if run.load.num_gpus != 1:
            gpus = f"{run.load.num_gpus} GPUs"
        changes.append(
            f"{run.load.model.name}, {gpus}: {run.step_s:.4g} s, {change:+.1f} % of expected"
        )
    own = Kinship.of([run.load for run in measured], np.array(misses))
    return replace(tuned, rows=solved(base.rows.joined(own), tuned.spread)), changes


def _medians(factors: Sequence[tuple[str, float]], base: Calibration) -> dict[str, float]:
    """The median of each constant's factors, if the constant is known and
    changes."""
    by_name: dict[str, list[float]] = {}
    for name, factor in factors:
        if name in base.values:
            by_name.setdefault(name, []).append(factor)
    medians = {}
    for name, each in by_name.items():
        factor = median(each)
        if abs(factor - 1) > SAME:
            medians[name] = factor
    return medians


def _of_breakdown(run: Measured, base: Calibration) -> Factors:
    """Expected over measured seconds of the parts of a profiled step."""
    if run.breakdown is None:
        return
    expected = predict(run.load, base).parts
    arch = run.load.gpu.family
    constant = {
        "matmul": f"products.{arch}.{BITS.get(run.load.number, 16)}",
        "attention": f"attention.{arch}",
        OTHER_KERNELS: f"memory.{arch}",
        COMMUNICATION: "link.nvlink",
    }
    for part, seconds in profiled_parts(run).items():
        if seconds > LEAST * run.step_s and part in constant:
            own = sum(expected[each] for each in part.split("+"))
            yield constant[part], own / seconds
            if part == OTHER_KERNELS:  # the memory limits a part of their time, the cores the rest
                yield "memory.cores", seconds / own


def _of_ceilings(run: Measured) -> Factors:
    """Speed of this machine's products and memory alone over the usual speed."""
    if run.ceilings is None:
        return
    gpu = run.load.gpu
    arch = gpu.family
    shares = {
        f"products.{arch}.16": _tflops(run.ceilings, "bf16") / gpu.peak_bf16_tflops,
        f"products.{arch}.8": _tflops(run.ceilings, "fp8") / (gpu.peak_fp8_tflops or np.inf),
        f"memory.{arch}": run.ceilings.copy_gb_per_s / gpu.memory_gb_per_s,
    }
    for name, share in shares.items():
        if share and name in USUAL_CEILINGS:
            yield name, share / USUAL_CEILINGS[name]


def _tflops(ceilings: Ceilings, number: Precision) -> float:
    """Harmonic mean over the measured products, weighted by their FLOPs; 0 without
    any."""
    done = 0.0
    time = 0.0
    for gemm in ceilings.gemms:
        rates = gemm.tflops.get(number)
        if rates and gemm.name in REFERENCE_LAYERS:
            flops = gemm.count * gemm.m * gemm.n * gemm.k
            done += flops * len(rates)
            time += sum(flops / each for each in rates.values())
    if not time:
        return 0.0
    return done / time
