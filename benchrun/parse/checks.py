"""What the rows themselves say went wrong: a loss that is no number, a step without an update, gaps, an early end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from benchrun.parse.columns import NO_VALUE, Column
from benchrun.parse.problems import MOST
from benchrun.parse.records import Log, Problem, Rows

MOST_GAPS = 1 << 16
"""Different distances of steps that are counted; a run has one or two."""


def step_problems(log: Log, *, may_skip: bool) -> list[Problem]:
    """At most MOST of each kind. With ``may_skip`` a step without a row is no gap."""
    rows = log.steps
    if not len(rows):
        return []
    found = [problem for kind in (_nan, _nan_grad, _skipped, _missing) for problem in islice(kind(rows), MOST)]
    if not may_skip:
        found += islice(_gaps(rows), MOST)
    planned = log.planned_steps
    if planned is not None and log.steps_made < planned:
        last = log.steps_made - 1 + log.first_number
        detail = f"the last step seen is {last}, the last planned one {planned - 1 + log.first_number}"
        found.append(Problem("early_end", rows[len(rows) - 1].line or None, detail))
    return found


def _nan(rows: Rows) -> Iterator[Problem]:
    for step, line, loss, nan in rows.columns.blocks("step", "line", "loss", "nan"):
        for index in np.flatnonzero(np.isnan(loss) | np.isposinf(loss) | (nan > 0)):
            yield Problem("nan_loss", int(line[index]), f"step {step[index]}: the loss is not a number")


def _nan_grad(rows: Rows) -> Iterator[Problem]:
    # Megatron prints no loss that is not a number, and the Trainer 0: then this is the only sign.
    for step, line, norm, skipped in rows.columns.blocks("step", "line", "grad_norm", "skipped"):
        for index in np.flatnonzero((np.isnan(norm) | np.isposinf(norm)) & (skipped <= 0)):
            yield Problem("nan_grad", int(line[index]), f"step {step[index]}: the gradients' norm is not a number")


def _skipped(rows: Rows) -> Iterator[Problem]:
    for step, line, skipped in rows.columns.blocks("step", "line", "skipped"):
        for index in np.flatnonzero(skipped > 0):
            detail = f"step {step[index]}: {skipped[index]} without an update"
            yield Problem("skipped_steps", int(line[index]), detail)


def _missing(rows: Rows) -> Iterator[Problem]:
    if all((loss == NO_VALUE).all() for (loss,) in rows.columns.blocks("loss")):
        return
    # Megatron leaves out a loss whose mean is not positive: NaN, if the step was not skipped.
    for step, line, loss, skipped in rows.columns.blocks("step", "line", "loss", "skipped"):
        for index in np.flatnonzero((loss == NO_VALUE) & (skipped <= 0)):
            yield Problem("missing_loss", int(line[index]), f"step {step[index]}: no loss, others have one")


def _gaps(rows: Rows) -> Iterator[Problem]:
    settled, expected = iter(_usual_gaps(rows)), 0
    for opens, gaps, step, line in _stretches(rows):
        expected = next(settled) if opens else expected
        for index in np.flatnonzero(gaps > expected):
            detail = f"no row between step {step[index] - gaps[index]} and {step[index]}"
            yield Problem("missing_steps", int(line[index]), detail)


def _usual_gaps(rows: Rows) -> list[int]:
    """What most rows of each segment are apart; of equally many the smallest."""
    usual: list[int] = []
    counts: Counter[int] = Counter()
    for opens, gaps, _, _ in _stretches(rows):
        if opens:
            usual.append(0)
            counts = Counter()
        values, many = np.unique(gaps[gaps > 0], return_counts=True)
        counts.update(dict(zip(values.tolist(), many.tolist(), strict=True)))
        usual[-1] = min(counts, key=lambda gap: (-counts[gap], gap), default=0)
        if len(counts) > MOST_GAPS:
            counts = Counter(dict(counts.most_common(MOST_GAPS // 2)))
    return usual


def _stretches(rows: Rows) -> Iterator[tuple[bool, Column, Column, Column]]:
    """Of rows in one segment: whether they open it, how far each is from the one before (0 if none), step, line."""
    before = (-1, 0)
    for segment, step, line in rows.columns.blocks("segment", "step", "line"):
        edges = [0, *(np.flatnonzero(np.diff(segment)) + 1).tolist(), len(segment)]
        for first, end in pairwise(edges):
            opens = before[0] != segment[first]
            steps = step[first:end]
            yield opens, np.diff(steps, prepend=steps[0] if opens else before[1]), steps, line[first:end]
            before = (int(segment[end - 1]), int(step[end - 1]))
