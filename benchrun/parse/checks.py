"""What the rows themselves say went wrong: a loss that is no number, a step without an update, gaps, an early end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchrun.parse.columns import NO_VALUE
from benchrun.parse.problems import MOST
from benchrun.parse.records import Log, Problem


def step_problems(log: Log, *, may_skip: bool) -> list[Problem]:
    """At most MOST of each kind. With ``may_skip`` a step without a row is no gap."""
    rows = log.steps
    if not len(rows):
        return []
    found = [*_losses(log)]
    if not may_skip:
        found += _gaps(log)
    last, planned = max(rows.columns.step), log.planned_steps
    if planned is not None and last < planned - 1 + log.first_number:
        detail = f"the last step seen is {last}, the last planned one {planned - 1 + log.first_number}"
        found.append(Problem("early_end", rows[len(rows) - 1].line or None, detail))
    return found


def _losses(log: Log) -> Iterator[Problem]:
    columns = log.steps.columns
    loss, skipped = np.asarray(columns.loss), np.asarray(columns.skipped)
    for index in np.flatnonzero(np.isnan(loss) | (np.asarray(columns.nan) > 0))[:MOST]:
        yield Problem("nan_loss", columns.line[index], f"step {columns.step[index]}: the loss is not a number")
    for index in np.flatnonzero(skipped > 0)[:MOST]:
        detail = f"step {columns.step[index]}: {skipped[index]} without an update"
        yield Problem("skipped_steps", columns.line[index], detail)
    absent = loss == NO_VALUE
    if absent.all():
        return
    # Megatron leaves out a loss whose mean is not positive: NaN, if the step was not skipped.
    for index in np.flatnonzero(absent & (skipped <= 0))[:MOST]:
        yield Problem("missing_loss", columns.line[index], f"step {columns.step[index]}: no loss, others have one")


def _gaps(log: Log) -> Iterator[Problem]:
    columns = log.steps.columns
    segment, step = np.asarray(columns.segment), np.asarray(columns.step)
    for number in range(log.segments):
        rows = np.flatnonzero(segment == number)
        gaps = np.diff(step[rows])
        if not len(gaps):
            continue
        values, counts = np.unique(gaps, return_counts=True)
        usual = values[counts.argmax()]
        for index in np.flatnonzero(gaps > usual)[:MOST]:
            before, after = rows[index], rows[index + 1]
            detail = f"no row between step {step[before]} and {step[after]}"
            yield Problem("missing_steps", columns.line[after], detail)
