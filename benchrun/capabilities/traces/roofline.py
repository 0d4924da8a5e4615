"""Matrix products whose shapes the profiler recorded: achieved TFLOPS, and the share of
the GPU's peak.
"""

from dataclasses import dataclass

import numpy as np

from benchrun import hardware
from benchrun.model.operators import MULTIPLY_ADD

from .events import RankTrace, Shape
from .kernels import CLASSES, Classified

SHOWN = 20
PRECISIONS = {"c10::BFloat16": "bf16", "c10::Half": "fp16"}
"""Type of the input -> precision in the table of GPUs."""


@dataclass(frozen=True)
class ProductTime:
    """All products of one shape on one rank."""

    shape: Shape
    count: int
    seconds: float
    """Sum of the durations of their kernels."""
    tflops: float
    of_peak: float | None
    """Share of the GPU's dense peak; None for a GPU or type without a listed peak."""


def products_of(trace: RankTrace, classes: Classified) -> list[ProductTime]:
    """The products that take longest, at most SHOWN; none if the trace has no shapes."""
    if not trace.shapes:
        return []
    chosen = (classes.number == CLASSES.index("matmul")) & np.isin(
        classes.events.external, list(trace.shapes)
    )
    events = classes.events.where(chosen)
    nanoseconds: dict[Shape, int] = {}
    operators: dict[Shape, set[int]] = {}
    for operator, length in zip(
        events.external.tolist(), (events.times.end - events.times.start).tolist(), strict=True
    ):
        shape = trace.shapes[operator]
        nanoseconds[shape] = nanoseconds.get(shape, 0) + length
        operators.setdefault(shape, set()).add(operator)
    name = None
    if trace.gpu:
        name = hardware.name_of(trace.gpu)
    gpu = None
    if name:
        gpu = hardware.gpu(name)
    rows = []
    for shape in sorted(nanoseconds, key=lambda each: -nanoseconds[each])[:SHOWN]:
        count = len(operators[shape])
        seconds = nanoseconds[shape] / 1e9
        tflops = (
            count
            * MULTIPLY_ADD
            * shape.batch
            * shape.m
            * shape.n
            * shape.k
            / max(seconds, 1e-12)
            / 1e12
        )
        peak = None
        if gpu:
            peak = gpu.peak_tflops(PRECISIONS.get(shape.dtype, ""))
        rows.append(ProductTime(shape, count, seconds, tflops, tflops / peak if peak else None))
    return rows
