"""Whether a run trained: a run that makes no updates has no speed."""

import math
from collections.abc import Iterator

import numpy as np

from benchrun.logs.columns import NO_VALUE
from benchrun.logs.records import Log, Problem
from benchrun.logs.row_problems import MOST_LOST

from .statistics import Floats

CONSTANT_ROWS = 10
"""Number of equal losses, and no other, from which on they are named."""
FEWEST = 3
"""Rows that show a run does not train: one or two agree with anything."""
LEAST_FALLING, STANDARD_ERRORS = 6, 5.0
"""Rows that show a loss to fall, and standard errors by which the mean of their second
half is below that of the first.
"""
ENOUGH_DIGITS = 5
"""Losses that agree in so many printed digits agree by more than chance."""


def updates(log: Log) -> tuple[int, int, float]:
    """Number of steps that the rows stand for, how many of them made no update, and
    their share.

    Counted by the rows, else by messages, which tell of all steps and not of those with
    a row alone; a single message is the usual search for a loss scale.
    """
    number, left_out, intervals = log.distinct.columns("step", "skipped", "interval")
    skipped, steps = int(left_out.sum()), int(intervals.sum())
    covered = steps
    if not skipped and log.skip_messages > 1 and steps:
        skipped = log.skip_messages
        covered = max(steps, int(np.ptp(number)) if len(number) > 1 else log.steps_made)
    return steps, min(skipped, steps), min(skipped / covered, 1.0) if covered else 0.0


def no_training(log: Log, first_step: int) -> Iterator[Problem]:
    """Find evidence that the weights do not change: fatal as ``no_update``, else the
    note ``constant_loss``.

    ``first_step`` is the first one after the warm-up.
    """
    yield from _without_gradients(log)
    yield from _infinite_gradients(log)
    if not log.post_training:
        yield from _constant_loss(log, first_step)


def _without_gradients(log: Log) -> Iterator[Problem]:
    """Gradient norms that are zero or NaN in too many steps.

    A zero in every row beside a loss that falls is what programs print that compute no
    norm. GRPO has none if all answers are rated alike. It trains nothing if every loss
    is zero too.
    """
    norm, loss, skipped, line = log.distinct.columns("grad_norm", "loss", "skipped", "line")
    stated = (norm != NO_VALUE) & (skipped <= 0)
    zero = norm == 0
    counts = not log.post_training or bool((zero & (loss == 0))[stated].all())
    if stated.any() and zero[stated].all() and _falls(loss[np.isfinite(loss)]):
        counts = False
        detail = "the gradients' norm is zero in all rows beside a falling loss: not computed"
        yield Problem("zero_norm", None, detail)
    lost = stated & (np.isnan(norm) | (zero & counts))
    enough = stated.sum() >= FEWEST or log.post_training
    if enough and lost.sum() > MOST_LOST * stated.sum():
        detail = (
            f"the gradients' norm is zero or not a number in {lost.sum()} of {stated.sum()} rows"
        )
        yield Problem("no_update", int(line[lost][0]) or None, detail)


def _infinite_gradients(log: Log) -> Iterator[Problem]:
    """Gradient norms that are infinite in too many steps: clipping by such a norm leaves
    no gradient. A norm over parameters of another rank may be infinite and unused.
    """
    norm, line = log.distinct.columns("grad_norm", "line")
    stated, lost = norm != NO_VALUE, norm == np.inf
    if lost.sum() > MOST_LOST * stated.sum():
        detail = f"the gradients' norm is infinite in {lost.sum()} of {stated.sum()} rows"
        yield Problem("infinite_norm", int(line[lost][0]) or None, detail)


def _falls(losses: Floats) -> bool:
    """Whether the losses fall by more than chance."""
    if len(losses) < LEAST_FALLING:
        return False
    halves = np.array_split(losses, 2)
    fall = float(np.mean(halves[0]) - np.mean(halves[1]))
    error = math.sqrt(sum(float(np.var(half, ddof=1)) / len(half) for half in halves))
    return fall > STANDARD_ERRORS * error


def _constant_loss(log: Log, first_step: int) -> Iterator[Problem]:
    """A loss that never changes: the weights are not updated, or the batch is not read."""
    step, losses = log.distinct.columns("step", "loss")
    stated = losses != NO_VALUE
    inside = losses[stated & (step >= first_step)]
    if stated.sum() < CONSTANT_ROWS or not len(inside) or (inside != inside[0]).any():
        return
    placeholder = log.placeholder_loss and ((log.facts.pp or 1) > 1 or inside[0] <= 0)
    enough = len(inside) >= FEWEST and log.loss_digits >= ENOUGH_DIGITS
    certain = enough and inside[0] != 0 and not placeholder
    if not certain and (losses[stated] != inside[0]).any():
        return
    detail = f"{inside[0]:g} in all {len(inside)} rows: no update reaches the weights, or the batches are all alike"
    yield Problem("no_update" if certain else "constant_loss", None, detail)
