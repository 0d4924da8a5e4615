"""A workload -> how long its step should take, in parts, with an interval."""

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.measure.scaling import Scaling

from . import constants, residuals, rows
from .choice import chosen
from .counting import count
from .kinship import Kinship
from .physics import PARTS, on_slow_host, seconds
from .workload import Workload

PUBLISHED = "published rows and kept runs"
"""Name of the calibration that is shipped."""
RESULTS = ("predicted_s", "low_s", "high_s")
"""Columns that a table of rows gets."""


@dataclass(frozen=True)
class Calibration:
    """Constants, and rows whose misses are known: a prediction rests on both."""

    values: Mapping[str, float]
    rows: Kinship
    name: str = PUBLISHED

    @cached_property
    def spread(self) -> Mapping[str, float]:
        """Standard deviations of the covariance and widths of intervals."""
        found = {}
        for name, value in self.values.items():
            found[name.removeprefix("alike.")] = value
        return found


@dataclass(frozen=True)
class Prediction:
    """One predicted step, in s."""

    load: Workload
    median: float
    low: float
    high: float
    parts: Mapping[str, float]
    """Seconds by part; they add up to the median."""
    calibration: str = PUBLISHED

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Throughput at the median."""
        return self.load.tokens_per_s_per_gpu / self.median


def usual() -> Calibration:
    """The calibration that is shipped."""
    return Calibration(constants.fitted(), residuals.stored_rows())


def predict(load: Workload, calibration: Calibration | None = None) -> Prediction:
    """Predict the step of ``load``: never slower than on a GPU that differs in slower
    memory alone.

    A site's own runs, with ``calibration``, say how fast its GPUs are, and no other
    GPU's rows correct them.
    """
    if calibration is not None:
        return _of_rows(load, calibration)
    one = _of_rows(load, usual())
    twin = hardware.slower_twin(load.gpu)
    if twin is None:
        return one
    share = min(_of_rows(replace(load, gpu=twin), usual()).median / one.median, 1.0)
    parts = _scaled(one.parts, share)
    return replace(
        one, median=one.median * share, low=one.low * share, high=one.high * share, parts=parts
    )


def _of_rows(load: Workload, calibration: Calibration) -> Prediction:
    """The physics, corrected by similar rows, and never faster than the FLOPs at
    peak."""
    counts = count(load)
    parts = {}
    for name, value in seconds(counts, chosen(load, calibration.values)).items():
        parts[name] = float(value)
    physics = sum(parts.values())
    correction = residuals.correction(load, calibration.rows, calibration.spread)
    layer = counts.products + counts.attention * _peak_of_attention(load)
    bound = float(counts.microbatches * (counts.layers * layer + counts.logits / counts.stages))
    median = max(physics * float(np.exp(correction.median)), bound)
    slow = sum(seconds(counts, on_slow_host(chosen(load, calibration.values))).values())
    wide = float(np.exp(np.hypot(correction.half_width, np.log(slow / physics))))
    low = max(median / wide, bound)
    high = median * wide
    return Prediction(load, median, low, high, _scaled(parts, median / physics), calibration.name)


def scaled(load: Workload, number: int, scaling: Scaling) -> Workload:
    """``load`` on ``number`` GPUs: weak keeps the batch per GPU, strong the whole.
    UserError if illegal."""
    for degrees in load.layout.units:
        unit = math.prod(degrees.values())
        if number % unit:
            raise UserError(f"{number} GPUs are no multiple of {' * '.join(degrees)} = {unit}")
    dp = load.layout.dp(number)
    gbs = load.gbs * number / load.num_gpus if scaling == "weak" else load.gbs
    interleaved = 1
    if load.layout.vp > 1:
        interleaved = load.layout.pp
    batch = load.mbs * dp * interleaved
    if gbs % batch:
        rule = "mbs * dp"
        if interleaved > 1:
            rule = "mbs * dp * pp"
        raise UserError(
            f"a global batch of {gbs:g} is no multiple of {rule} = {batch:g} on {number} GPUs",
            hint=f"leave out {number} GPUs, or name a batch: --set gbs={-(-gbs // batch) * batch:g}",
        )
    layout = load.layout
    cp = load.layout.cp
    if layout.fsdp == load.dp * cp > 1:  # over all ranks that share weights, here and there
        layout = layout.model_copy(update={"fsdp": dp * cp})
    return replace(load, num_gpus=number, gbs=gbs, layout=layout)


def predicted_rows(
    file: TextIO, out: TextIO, say: Callable[[str], Any], calibration: Calibration | None = None
) -> int:
    """Copy the rows of a table with the columns of `RESULTS`; returns how many were
    predicted."""
    calibration = calibration or usual()
    predicted = 0
    reader = csv.DictReader(file)
    names = [*(reader.fieldnames or ()), *RESULTS]
    columns = {name.strip().lower() for name in names}
    if not {"gpu", "model"} <= columns and "hidden" not in columns:
        raise UserError(
            "the table has no columns 'model' and 'gpu'",
            hint="columns as in benchrun/capabilities/predict/published.csv",
        )
    for remark in rows.misnamed(columns):
        say(f"line 1: {remark}")
    writer = csv.DictWriter(out, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for number, row in enumerate(reader, start=2):
        try:
            results, remarks = _predicted_row(row, calibration)
            predicted += 1
        except (UserError, ValueError, TypeError, ArithmeticError) as error:
            results = dict.fromkeys(RESULTS, "")
            remarks = [getattr(error, "message", str(error))]
        for remark in (*_surplus(row), *remarks):
            say(f"line {number}: {remark}")
        writer.writerow({**row, **results})
    return predicted


def _predicted_row(row: rows.Row, calibration: Calibration) -> tuple[dict[str, str], list[str]]:
    """The cells of `RESULTS`, and a sentence for each value that the row leaves open or
    in doubt."""
    complete, remarks = rows.completed(
        {str(name).strip().lower(): value for name, value in row.items()}
    )
    load = rows.workload_of_row(complete)
    one = predict(load, calibration)
    numbers = (one.median, one.low, one.high)
    if not all(map(math.isfinite, numbers)):
        raise UserError("nothing finite can be predicted from it")
    results = {}
    for name, value in zip(RESULTS, numbers, strict=True):
        results[name] = f"{value:.6g}"
    return results, [*remarks, *rows.doubts(complete, load)]


def _surplus(row: rows.Row) -> list[str]:
    """A sentence about cells that stand under no column."""
    more = row.get(None)  # type: ignore[call-overload]
    return [f"{len(more)} more cells than the header has columns are left out"] if more else []


def predicted_table(path: Path, out: TextIO, say: Callable[[str], Any]) -> int:
    """`predicted_rows` of a file. UserError if it cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return predicted_rows(file, out, say)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot be read: {error}", where=str(path)) from None


def _peak_of_attention(load: Workload) -> float:
    """The BF16 peak over that of the lowest precision that may compute attention."""
    gpu = load.gpu
    if load.number == "bf16" or not gpu.peak_fp8_tflops:
        return 1.0
    return gpu.peak_bf16_tflops / gpu.peak_fp8_tflops


def _scaled(parts: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: parts[name] * factor for name in PARTS}
