"""Problems that the rows of a log show: values that are no numbers, gaps, an early end."""

from collections.abc import Iterator

import numpy as np

from .columns import NO_VALUE, Column
from .problems import MOST
from .records import Log, Problem
from .rows import Rows

MOST_LOST = 0.1
"""Share of steps without an update, without gradients or without a loss above which a
run did not train.
"""


def step_problems(log: Log) -> list[Problem]:
    """Find problems that the rows themselves show: values that are no numbers, steps
    without an update, gaps, an early end.
    """
    rows = log.steps
    if not len(rows):
        return []
    # A step of reinforcement learning may train the critic alone.
    problems = list(_values(rows, may_skip=log.may_skip or log.post_training))
    if not log.may_skip:
        problems += _gaps(rows)
    if log.unread > len(rows):
        detail = f"{log.unread} of {log.unread + len(rows)} rows have no time that can be read"
        problems.append(Problem("unreadable_rows", rows[0].line or None, detail))
    planned = log.planned_steps
    if planned is not None and not log.complete(planned):
        last = log.steps_made - 1 + log.first_number
        detail = (
            f"the last step seen is {last}, the last planned one {planned - 1 + log.first_number}"
        )
        problems.append(Problem("early_end", rows[len(rows) - 1].line or None, detail))
    elif log.unfinished:
        detail = "the log says that the run began, and not that it ended"
        problems.append(Problem("early_end", rows[len(rows) - 1].line or None, detail))
    return problems


def _values(rows: Rows, *, may_skip: bool) -> Iterator[Problem]:
    names = "step", "line", "loss", "grad_norm", "skipped", "nan"
    step, line, loss, norm, skipped, nan = rows.columns(*names)
    updated = skipped <= 0
    # Megatron prints no loss that is not a number, and the Trainer 0: then the norm is
    # the only sign. Megatron leaves out a loss whose mean is not positive: NaN, if the
    # step was not skipped.
    missing = (loss == NO_VALUE) & updated & (loss != NO_VALUE).any() & (not may_skip)
    lost = missing.sum() > MOST_LOST * len(rows)
    # The search for a loss scale has losses that are no numbers, until it makes an
    # update.
    last_update = np.flatnonzero(updated).max(initial=-1)
    counts = updated | (np.arange(len(rows)) > last_update)
    no_number = (~(loss < np.inf) | (nan > 0)) & counts
    diverged = no_number.sum() > MOST_LOST * len(rows) or no_number[-1]
    for kind, wrong, detail in (
        ("nan_loss" if diverged else "few_nan_losses", no_number, "the loss is not a number"),
        ("nan_grad", ~(norm < np.inf) & updated, "the gradients' norm is not a number"),
        ("skipped_steps", ~updated, "{} without an update"),
        ("nan_loss" if lost else "missing_loss", missing, "no loss, others have one"),
    ):
        for index in np.flatnonzero(wrong)[:MOST]:
            yield Problem(
                kind, int(line[index]), f"step {step[index]}: {detail.format(skipped[index])}"
            )


def _gaps(rows: Rows) -> list[Problem]:
    """Rows that are further from the one before them than most rows of their segment."""
    segment, step, line = rows.columns("segment", "step", "line")
    problems: list[Problem] = []
    for part in np.split(np.arange(len(step)), np.flatnonzero(np.diff(segment)) + 1):
        gaps = np.diff(step[part], prepend=step[part[0]])
        for index in np.flatnonzero(gaps > _usual(gaps))[: MOST - len(problems)]:
            at = part[index]
            detail = f"no row between step {step[at] - gaps[index]} and {step[at]}"
            problems.append(Problem("missing_steps", int(line[at]), detail))
    return problems


def _usual(gaps: Column) -> int:
    """Distance between most rows; of equally many the smallest."""
    values, counts = np.unique(gaps[gaps > 0], return_counts=True)
    if len(values):
        return int(values[np.argmax(counts)])
    return 0
