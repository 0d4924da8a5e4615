"""What the rows themselves show: a loss that is not a number, a step without an update, gaps, an early end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from benchrun.parse.columns import NO_VALUE, Column
from benchrun.parse.problems import MOST
from benchrun.parse.records import Log, Problem
from benchrun.parse.rows import Rows


def step_problems(log: Log, *, may_skip: bool) -> list[Problem]:
    """At most MOST of each kind. With ``may_skip`` a step without a row is no gap."""
    rows = log.steps
    if not len(rows):
        return []
    problems = list(_values(rows))
    if not may_skip:
        problems += _gaps(rows)
    planned = log.planned_steps
    if planned is not None and log.steps_made < planned:
        last = log.steps_made - 1 + log.first_number
        detail = f"the last step seen is {last}, the last planned one {planned - 1 + log.first_number}"
        problems.append(Problem("early_end", rows[len(rows) - 1].line or None, detail))
    return problems


def _values(rows: Rows) -> Iterator[Problem]:
    names = "step", "line", "loss", "grad_norm", "skipped", "nan"
    step, line, loss, norm, skipped, nan = rows.columns(*names)
    updated = skipped <= 0
    # Megatron prints no loss that is not a number, and the Trainer 0: then the norm is the only sign. Megatron leaves
    # out a loss whose mean is not positive: NaN, if the step was not skipped.
    missing = (loss == NO_VALUE) & updated & (loss != NO_VALUE).any()
    for kind, wrong, detail in (
        ("nan_loss", ~(loss < np.inf) | (nan > 0), "the loss is not a number"),
        ("nan_grad", ~(norm < np.inf) & updated, "the gradients' norm is not a number"),
        ("skipped_steps", ~updated, "{} without an update"),
        ("missing_loss", missing, "no loss, others have one"),
    ):
        for index in np.flatnonzero(wrong)[:MOST]:
            yield Problem(kind, int(line[index]), f"step {step[index]}: {detail.format(skipped[index])}")


def _gaps(rows: Rows) -> list[Problem]:
    """Rows that are further from the one before them than most rows of their segment."""
    segment, step, line = rows.columns("segment", "step", "line")
    edges = [0, *(np.flatnonzero(np.diff(segment)) + 1).tolist(), len(segment)]
    problems: list[Problem] = []
    for first, end in pairwise(edges):
        gaps = np.diff(step[first:end], prepend=step[first])
        for index in np.flatnonzero(gaps > _usual(gaps))[: MOST - len(problems)]:
            at = first + index
            detail = f"no row between step {step[at] - gaps[index]} and {step[at]}"
            problems.append(Problem("missing_steps", int(line[at]), detail))
    return problems


def _usual(gaps: Column) -> int:
    """What most rows are apart; of equally many the smallest distance."""
    values, counts = np.unique(gaps[gaps > 0], return_counts=True)
    return int(values[np.argmax(counts)]) if len(values) else 0
