"""A site's own calibration: parts of its profiled steps, its GPUs' ceilings, and what its runs took beside all that."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from benchrun.predict.choice import BITS
from benchrun.predict.prediction import Calibration, predict, usual
from benchrun.predict.residuals import correction, with_runs
from benchrun.predict.runs import OTHER_KERNELS, Measured, profiled
from benchrun.spec.artifacts import Ceilings

LEAST = 0.05
"""Parts below this share of a step change no constant."""
REFERENCE_LAYERS = ("qkv", "proj", "fc1", "fc2")


def calibrated(measured: Sequence[Measured], base: Calibration | None = None) -> tuple[Calibration, list[str]]:
    """The calibration with the runs of a site, and a line for each constant that changed."""
    base = base or usual()
    values, changes = dict(base.values), []
    inside = _of_breakdowns(measured, base)
    # A product inside a step tells more than the same product alone.
    alone = {name: factor for name, factor in _of_ceilings(measured, base).items() if name not in inside}
    for origin, factors in (("breakdowns", inside), ("ceilings", alone)):
        for name, factor in factors.items():
            changes.append(f"{name}: {values[name]:.3g} -> {values[name] * factor:.3g}, from the {origin}")
            values[name] *= factor
    tuned = Calibration(values, base.rows, f"runs: {len(measured)}")
    misses = []
    for run in measured:
        before = predict(run.load, base)
        plain = predict(run.load, tuned)
        expected = sum(plain.parts.values())
        # The known rows already correct the median: what is left is added to that of these runs.
        usual_miss = correction(run.load, tuned.rows, tuned.spread).median
        misses.append(float(np.log(run.step_s / expected) + usual_miss))
        change = 100 * (run.step_s / before.median - 1)
        gpus = f"{run.load.num_gpus} GPU{'s' if run.load.num_gpus > 1 else ''}"
        changes.append(f"{run.load.model.name}, {gpus}: {run.step_s:.4g} s, {change:+.1f} % of expected")
    rows = with_runs(base.rows, [run.load for run in measured], np.array(misses), tuned.spread)
    return Calibration(values, rows, tuned.name), changes


def _of_breakdowns(measured: Sequence[Measured], base: Calibration) -> dict[str, float]:
    """Factors on constants: how long the parts of profiled steps should take over how long they took."""
    factors: dict[str, list[float]] = {}
    for run in measured:
        if run.breakdown is None:
            continue
        expected, arch = predict(run.load, base).parts, run.load.gpu.arch.split()[0].lower()
        constant = {
            "matmul": f"products.{arch}.{BITS.get(run.load.number, 16)}",
            "attention": f"attention.{arch}",
            OTHER_KERNELS: f"memory.{arch}",
            "tp+cp+ep+bubble+dp": "link.nvlink",
        }
        for part, seconds in profiled(run).items():
            if seconds > LEAST * run.step_s and part in constant:
                own = sum(expected[each] for each in part.split("+"))
                factors.setdefault(constant[part], []).append(own / seconds)
                if part == OTHER_KERNELS:  # the memory limits a part of their time, the cores the rest
                    factors.setdefault("memory.cores", []).append(seconds / own)
    return _medians(factors, base)


def _medians(factors: dict[str, list[float]], base: Calibration) -> dict[str, float]:
    """The median of each constant's factors, where the constant is known and changes by more than half a percent."""
    medians = {name: median(each) for name, each in factors.items() if name in base.values}
    return {name: factor for name, factor in medians.items() if abs(factor - 1) > 0.005}


def _of_ceilings(measured: Sequence[Measured], base: Calibration) -> dict[str, float]:
    """Factors on the constants of products and memory: what this machine reached alone over what the usual one did."""
    factors: dict[str, list[float]] = {}
    for run in measured:
        if run.ceilings is None:
            continue
        gpu, arch = run.load.gpu, run.load.gpu.arch.split()[0].lower()
        for bits, number, peak in ((16, "bf16", gpu.peak_bf16_tflops), (8, "fp8", gpu.peak_fp8_tflops)):
            reached = _tflops(run.ceilings, number)
            name = f"products.{arch}.{bits}"
            if reached and peak and name in USUAL_CEILINGS:
                factors.setdefault(name, []).append(reached / peak / USUAL_CEILINGS[name])
        name = f"memory.{arch}"
        if name in USUAL_CEILINGS:
            copied = run.ceilings.copy_gb_per_s / gpu.memory_gb_per_s
            factors.setdefault(name, []).append(copied / USUAL_CEILINGS[name])
    return _medians(factors, base)


def _tflops(ceilings: Ceilings, number: str) -> float | None:
    """Harmonic mean over the measured products, weighted by their work."""
    done, time = 0.0, 0.0
    for gemm in ceilings.gemms:
        for name, tflops in gemm.tflops.items():
            if name == number and gemm.name in REFERENCE_LAYERS:
                flops = gemm.count * gemm.m * gemm.n * gemm.k
                done += flops * len(tflops)
                time += sum(flops / each for each in tflops.values())
    return done / time if time else None


USUAL_CEILINGS = {"products.hopper.16": 0.685, "products.hopper.8": 0.616, "memory.hopper": 0.886}
"""Share of the peak that the kept runs' ceilings reached alone (median over the runs)."""
