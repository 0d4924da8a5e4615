"""Step rows -> the times and rates that count: completed where the conditions are known, without impossible values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchrun import hardware
from benchrun.metrics.flops import flops_per_token
from benchrun.metrics.known import Known
from benchrun.metrics.statistics import Floats
from benchrun.parse.records import Log, Problem, Rows

IMPOSSIBLY_FAST = 3.0
"""So many times faster than the median step: the same work cannot be done in a third of the time."""
MOST_IMPOSSIBLE = 0.25
"""If more of the rows than this are so fast, they are another kind of step, and no mistake of a clock."""
VARYING = frozenset({"hf"})
"""Frameworks that train on samples of any length: a short step is no mistake."""


@dataclass(frozen=True)
class Measured:
    """The rows of a log, one value a row; NaN is what is not known."""

    rows: Rows
    step_time_s: Floats
    tokens_per_s_per_gpu: Floats
    tflops_per_gpu: Floats
    """As reported."""
    interval: NDArray[np.int32]
    impossible: NDArray[np.bool_]

    def problems(self) -> list[Problem]:
        """The rows that are left out, and why."""
        return [
            Problem(
                "impossible_step",
                self.rows.columns.line[index],
                f"step {self.rows.columns.step[index]}: {self.step_time_s[index]:.4g} s is impossibly fast; left out",
            )
            for index in np.flatnonzero(self.impossible).tolist()
        ]


def measured(log: Log, known: Known) -> Measured:
    """Times from rates, and rates from times, where the log gives only one of them."""
    rows = log.distinct
    columns = rows.columns
    time, rate = _positive(columns.step_time_s), _positive(columns.tokens_per_s_per_gpu)
    batch = np.asarray(columns.global_batch_size, dtype=np.float64)
    batch[batch <= 0] = known.global_batch_size or np.nan
    if known.seq_length and known.num_gpus and known.fixed_length:
        tokens = known.seq_length * batch / known.num_gpus
        time = np.where(np.isnan(time), tokens / rate, time)
        rate = np.where(np.isnan(tokens), rate, tokens / time)
    impossible = _above_peak(rate, known)
    if len(rows) and log.framework not in VARYING:
        impossible |= _above_others(rate, batch) if np.isnan(time).all() else _above_others(1 / time, batch)
    return Measured(
        rows=rows,
        step_time_s=time,
        tokens_per_s_per_gpu=rate,
        tflops_per_gpu=_positive(columns.tflops_per_gpu),
        interval=np.asarray(columns.interval),
        impossible=impossible,
    )


def _positive(column: object) -> Floats:
    values = np.array(column, dtype=np.float64)
    values[~(values > 0)] = np.nan
    return values


def _above_peak(rate: Floats, known: Known) -> NDArray[np.bool_]:
    """Rows that need more than the GPU's peak, even by the convention that counts less."""
    none = np.zeros(len(rate), dtype=bool)
    gpu = hardware.gpu(known.gpu) if known.gpu else None
    peak = gpu.peak_tflops(known.precision or "bf16") if gpu else None
    if peak is None or known.model is None or not known.seq_length:
        return none
    above: NDArray[np.bool_] = (
        rate * flops_per_token(known.model, known.seq_length, task=known.task).causal > peak * 1e12
    )
    # A run of which most is too fast has the wrong conditions: that is for the reader to see, not to leave out.
    return above if 0 < above.mean() <= 0.5 else none


def _above_others(speed: Floats, batch: Floats) -> NDArray[np.bool_]:
    """Rows far faster than the median of those with the same batch."""
    found = np.zeros(len(speed), dtype=bool)
    for size in np.unique(batch[~np.isnan(batch)]) if not np.isnan(batch).all() else [np.nan]:
        same = np.isnan(batch) if np.isnan(size) else batch == size
        values = speed[same & ~np.isnan(speed)]
        if len(values):
            found |= same & (speed > IMPOSSIBLY_FAST * np.median(values))
    return found if found.mean() <= MOST_IMPOSSIBLE else np.zeros(len(speed), dtype=bool)
