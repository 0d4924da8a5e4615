"""Step rows -> the times and rates that count: completed where the conditions are known, without impossible values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun import hardware
from benchrun.metrics.setting import Setting
from benchrun.metrics.statistics import Floats, Ints
from benchrun.metrics.streams import median_of
from benchrun.model.flops import flops_per_token
from benchrun.parse.problems import MOST
from benchrun.parse.records import Log, Problem, Rows

IMPOSSIBLY_FAST = 3.0
"""So many times faster than the median step: the same work cannot be done in a third of the time."""
MOST_IMPOSSIBLE = 0.25
"""If more of the rows than this are so fast, they are another kind of step, and no mistake of a clock."""
VARYING = frozenset({"hf"})
"""Frameworks that train on samples of any length: a short step is no mistake."""


MOST_BATCHES = 256
"""Sizes of batch whose rows are compared; a ramp has some dozens."""

Flags = NDArray[np.bool_]


class Block(NamedTuple):
    """Some rows in a row, one value each; NaN is what is not known."""

    step: NDArray[np.int64]
    line: NDArray[np.uint32]
    interval: NDArray[np.int32]
    step_time_s: Floats
    tokens_per_s_per_gpu: Floats
    tflops_per_gpu: Floats
    """As reported."""
    mfu: Floats
    """As reported."""
    batch: Floats
    impossible: Flags

    def chosen(self, rows: Flags) -> Block:
        """Some of the rows."""
        return Block._make(column[rows] for column in self)


@dataclass(frozen=True)
class Measured:
    """The rows of a log, completed where the conditions are known."""

    rows: Rows
    known: Setting
    peak_rate: float = inf
    """Tokens/s of one GPU above which a row is impossible."""
    of_time: bool = True
    """Speed is one over the step time; else it is tokens a second."""
    fastest: dict[float, float] = field(default_factory=dict)
    """Batch (NaN: not known) -> the speed above which a row is impossible."""

    def blocks(self) -> Iterator[Block]:
        """All rows, a block at a time; each call begins anew."""
        names = "step", "line", "interval", "step_time_s", "tokens_per_s_per_gpu"
        known = self.known
        for step, line, interval, times, rates, tflops, mfu, batches in self.rows.columns.blocks(
            *names, "tflops_per_gpu", "mfu", "global_batch_size"
        ):
            time, rate, batch = _positive(times), _positive(rates), _positive(batches)
            batch[np.isnan(batch)] = known.gbs or np.nan
            if known.seq_length and known.num_gpus and known.fixed_length:
                tokens = known.seq_length * batch / known.num_gpus
                time = np.where(np.isnan(time), tokens / rate, time)
                rate = np.where(np.isnan(tokens), rate, tokens / time)
            block = Block(
                step, line, interval, time, rate, _positive(tflops), _positive(mfu), batch, rate > self.peak_rate
            )
            for size, fastest in self.fastest.items():
                block.impossible[_of_batch(batch, size) & (self.speed(block) > fastest)] = True
            yield block

    def whole(self) -> Block:
        """All rows at once: for a picture."""
        blocks = list(self.blocks())
        return Block._make(np.concatenate(column) for column in zip(*blocks, strict=True))

    def speed(self, block: Block) -> Floats:
        """What of two rows with one batch is larger for the faster one."""
        return 1 / block.step_time_s if self.of_time else block.tokens_per_s_per_gpu

    def problems(self) -> Iterator[Problem]:
        """The first rows that are left out, and why."""
        left_out = (
            Problem(
                "impossible_step",
                int(block.line[index]),
                f"step {block.step[index]}: {block.step_time_s[index]:.4g} s is impossibly fast; left out",
            )
            for block in self.blocks()
            for index in np.flatnonzero(block.impossible)
        )
        return islice(left_out, MOST)


def measured(log: Log, known: Setting) -> Measured:
    """Times from rates, and rates from times, where the log gives only one of them."""
    values = Measured(log.distinct, known)
    values = replace(values, of_time=any(not np.isnan(block.step_time_s).all() for block in values.blocks()))
    # Of two reasons each is looked for in all rows.
    above = replace(values, peak_rate=_peak_rate(known))
    others = values if log.framework in VARYING else replace(values, fastest=_fastest(values))
    # A run of which most is too fast has the wrong conditions: that is for the reader to see, not to leave out.
    return replace(
        values,
        peak_rate=above.peak_rate if _left_out(above) <= 0.5 else inf,
        fastest=others.fastest if _left_out(others) <= MOST_IMPOSSIBLE else {},
    )


def _left_out(values: Measured) -> float:
    """The part of the rows that is impossible."""
    return sum(int(block.impossible.sum()) for block in values.blocks()) / max(len(values.rows), 1)


def _positive(column: NDArray[Any]) -> Floats:
    values = column.astype(np.float64)
    values[~(values > 0)] = np.nan
    return values


def _peak_rate(known: Setting) -> float:
    """Tokens/s that need the GPU's peak (the highest, of unknown precision) even by the convention that counts less."""
    gpu = hardware.gpu(known.gpu) if known.gpu else None
    highest = "fp8" if gpu and gpu.peak_fp8_tflops else "bf16"
    peak = gpu.peak_tflops(known.precision or highest) if gpu else None
    if peak is None or known.model is None or not known.seq_length:
        return inf
    return peak * 1e12 / flops_per_token(known.model, known.seq_length, task=known.task).causal


def _fastest(values: Measured) -> dict[float, float]:
    """Of each batch, what is far faster than the median of the rows with it."""
    sizes: set[float] = set()
    for block in values.blocks():
        sizes |= set(np.unique(block.batch[~np.isnan(block.batch)]).tolist())
    limits = {}
    for size in sorted(sizes)[:MOST_BATCHES] or [nan]:

        def speeds(size: float = size) -> Iterator[tuple[Floats, Ints]]:
            for block in values.blocks():
                found = values.speed(block)[_of_batch(block.batch, size)]
                found = found[~np.isnan(found)]
                yield found, np.ones(len(found), np.int64)

        median = median_of(speeds)
        if median is not None:
            limits[size] = IMPOSSIBLY_FAST * median
    return limits


def _of_batch(batch: Floats, size: float) -> Flags:
    same: Flags = np.isnan(batch) if isnan(size) else batch == size
    return same
