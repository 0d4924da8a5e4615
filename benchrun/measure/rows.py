"""Step rows -> the times and rates that count: completed if the conditions are known,
without impossible values.
"""

from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.logs.problems import MOST
from benchrun.logs.records import OTHER_LENGTH, TOKENS_PER_S, Log, Problem

from .setting import Setting
from .statistics import Floats

IMPOSSIBLY_FAST = 3.0
"""Factor on the median speed that no row reaches: the same work cannot be done in a
third of the time.
"""
MOST_IMPOSSIBLE = 0.25
"""Share of impossibly fast rows above which they are another kind of step, and no
mistake of a clock.
"""
MOST_TOO_FAST = 0.25
"""Share of rows above the GPU's peak from which on the conditions are wrong: the slower
rows tell nothing.
"""
MOST_BATCHES = 256
"""Sizes of batch whose rows are compared; a ramp has some dozens."""
ROUNDING = 0.02
"""Relative difference that the printed digits of a rate and a time may have."""
PARTS = ("training_s", "logprob_s")
"""Stages that no framework lets overlap the next step, so that none takes longer than
its own.
"""

Flags = NDArray[np.bool_]


class CompletedRows(NamedTuple):
    """The rows of a log, one value each in every array; NaN if neither log nor setting
    gives it.
    """

    step: NDArray[np.int64]
    line: NDArray[np.uint32]
    interval: NDArray[np.int32]
    step_time_s: Floats
    tokens_per_s_per_gpu: Floats
    tflops_per_gpu: Floats
    """TFLOPS as reported."""
    mfu: Floats
    """MFU as reported."""
    batch: Floats
    """Samples of a step, of all ranks."""
    printed_tokens: Floats
    """Tokens/s/GPU as reported."""
    printed_samples: Floats
    """Samples/s of all ranks as reported, beside a time."""
    consumed_samples: Floats
    """Samples of all steps so far."""
    impossible: Flags
    contradictory: Flags
    """Rows whose own numbers do not fit each other."""
    other_work: Flags
    """Rows whose time has other work in it; if every step has, they count."""
    other_batch: Flags
    """Rows whose batch, or that of some of whose steps, is not that of the last row of one
    batch.
    """

    @property
    def usable(self) -> Flags:
        """The rows that may be measured."""
        return ~(self.impossible | self.other_work | self.other_batch)

    def measured(self, window: Flags) -> "CompletedRows":
        """The rows of the ``window`` that may be measured: those with other work in
        them if there are no others.
        """
        rows = window & self.usable
        if not rows.any():
            rows = window & ~(self.impossible | self.other_batch)
        return self.chosen(rows)

    def chosen(self, rows: Flags) -> "CompletedRows":
        """Some of the rows."""
        return CompletedRows._make(column[rows] for column in self)

    def problems(self) -> Iterator[Problem]:
        """The first rows that are left out, and why."""
        for index in np.flatnonzero(self.impossible)[:MOST]:
            why = (
                "contradicts its other numbers"
                if self.contradictory[index]
                else "is impossibly fast"
            )
            detail = f"step {self.step[index]}: {self.step_time_s[index]:.4g} s {why}; left out"
            yield Problem("impossible_step", int(self.line[index]), detail)
        for kind, flags, why in (
            (
                "other_work",
                self.other_work,
                "hold a validation, a checkpoint or samples of another length",
            ),
            ("other_batch", self.other_batch, "have another global batch than the last one"),
        ):
            others = np.flatnonzero(flags)
            if len(others):
                named = ", ".join(map(str, self.step[others[:MOST]])) + (
                    ", ..." if len(others) > MOST else ""
                )
                detail = f"{len(others)} rows {why}, and are left out: {named}"
                yield Problem(kind, int(self.line[others[0]]), detail)


def completed_rows(log: Log, setting: Setting) -> CompletedRows:
    """Times from rates, and rates from times, if the log gives only one of them."""
    columns = log.distinct
    names = (
        "step_time_s",
        "tokens_per_s_per_gpu",
        "tflops_per_gpu",
        "mfu",
        "samples_per_s",
        "consumed_samples",
    )
    stated = (np.where(column > 0, column, np.nan) for column in columns.columns(*names))
    time, rate, tflops, mfu, samples, *consumed = stated
    batch, spans = columns.batches()
    batch[np.isnan(batch) & ~spans] = setting.gbs or np.nan
    step, line, interval = columns.columns("step", "line", "interval")
    if setting.num_gpus and TOKENS_PER_S in log.quantities:
        # The rate printed beside it for a GPU may be that of some ranks.
        of_all = quantity_of(log, TOKENS_PER_S, step) / setting.num_gpus
        rate = np.where(np.isnan(of_all), rate, of_all)
    printed = rate
    samples, time = (
        np.where(np.isnan(time), np.nan, samples),
        np.where(np.isnan(time), batch / samples, time),
    )
    if setting.seq_length and setting.num_gpus and setting.fixed_length:
        tokens = setting.seq_length * batch / setting.num_gpus
        time = np.where(np.isnan(time), tokens / rate, time)
        guessed = not setting.derived.keys().isdisjoint(("gbs", "num_gpus", "seq_length"))
        rate = np.where(np.isnan(tokens) | (guessed & ~np.isnan(printed)), rate, tokens / time)
    # Their tokens are not those of the batch.
    lengths = [number for number, work in log.other_work.items() if work == OTHER_LENGTH]
    other_length = np.isin(step, lengths)
    rate[other_length] = np.nan
    contradictory = np.zeros(len(time), bool)
    if setting.num_gpus and "tokens" in log.quantities:
        counted = quantity_of(log, "tokens", step) / time / setting.num_gpus
        rate = np.where(np.isnan(rate), counted, rate)
        contradictory |= np.abs(counted / rate - 1) > ROUNDING
    for stage in PARTS:
        contradictory |= quantity_of(log, stage, step) > time * (1 + ROUNDING)
    lowest = lowest_rate(log, rate, time * interval)
    impossible = lowest > _peak_rate(setting)
    if too_fast(lowest, setting):
        impossible[:] = False
    if not log.varying_length:
        # This is larger for the faster of two rows with one batch.
        speed = 1 / time if not np.isnan(time).all() else rate
        fast = _far_above_median(speed, batch)
        fast &= ~other_length
        impossible |= fast if fast.sum() <= MOST_IMPOSSIBLE * len(fast) else False
    impossible |= contradictory
    other = np.isin(step, list(log.other_work))
    last = batch[~spans | spans.all()][-1:]
    other_batch = (batch != last) & ~(np.isnan(batch) & np.isnan(last))
    left_out = impossible, contradictory, other & ~other.all(), other_batch
    reported = tflops, mfu, batch, printed, samples, *consumed
    return CompletedRows._make((step, line, interval, time, rate, *reported, *left_out))


def lowest_rate(log: Log, rate: Floats, span: Floats) -> Floats:
    """The ``rate`` of rows of ``span`` seconds, which a clock of whole seconds may show
    a second too short.
    """
    if log.whole_seconds:
        return rate * span / (span + 1)
    return rate


def too_fast(rate: Floats, setting: Setting) -> float | None:
    """The share of rows whose tokens/s/GPU are above the GPU's peak; None if few are,
    which are mistakes.
    """
    share = float(np.mean(rate > _peak_rate(setting))) if len(rate) else 0.0
    if share > MOST_TOO_FAST:
        return share
    return None


def quantity_of(log: Log, name: str, step: Any) -> Floats:
    """A quantity of each of these steps; NaN if a step has none."""
    stated = log.quantities.get(name, {})
    return np.array([stated.get(number, np.nan) for number in step.tolist()])


def _peak_rate(setting: Setting) -> float:
    """Tokens/s that need the GPU's peak (the highest, of unknown precision) even by the
    convention that counts less.
    """
    setting = setting.bound
    fastest, flops = setting.fastest_precision, setting.flops_per_token()
    peak = setting.peak_tflops(fastest) if fastest else None
    if peak and flops:
        return peak * 1e12 / flops.causal
    return inf


def _far_above_median(speed: Floats, batch: Floats) -> Flags:
    """Rows far faster than the median of the rows with their batch."""
    fast = np.zeros(len(speed), bool)
    sizes = np.unique(batch[~np.isnan(batch)])[:MOST_BATCHES]
    for rows in (batch == size for size in sizes) if len(sizes) else (np.isnan(batch),):
        speeds = speed[rows & ~np.isnan(speed)]
        if len(speeds):
            fast |= rows & (speed > IMPOSSIBLY_FAST * np.median(speeds))
    return fast
