"""Rows of a Hugging Face Trainer's log: numbers and times of its dictionaries, from
their own clocks or the bars'.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchrun.logs.columns import NO_COUNT, NO_VALUE, Column, Columns
from benchrun.logs.numerals import LARGEST
from benchrun.logs.rows import LONGEST_INTERVAL, Rows, Step

QUANTITIES = ("reward", "response_tokens")
"""Columns that every dictionary of reinforcement learning has, and no other."""
RATES = ("trained_tokens_per_s_per_gpu",)
"""Columns of rates that count other tokens than those of a step."""
BAR_TYPES = {"step": "q", "total": "q", "clock_s": "d", "line": "I"}
"""Columns of the bars."""
DICTIONARY_TYPES = {
    "bars": "q",
    "step": "q",
    "line": "I",
    **dict.fromkeys(
        (
            "clock_s",
            "step_time_s",
            "epoch",
            "loss",
            "grad_norm",
            "tokens_seen",
            *QUANTITIES,
            "mean_s",
            "tokens_per_s_per_gpu",
            "mean_tokens_per_s",
            "learning_rate",
            *RATES,
        ),
        "d",
    ),
}
"""Columns of the dictionaries. ``bars``: how many were drawn before. ``clock_s`` and
``tokens_seen``, of all ranks, count from the start of the run; ``mean_s`` is the mean
time of all steps so far.
"""
MOST_STUCK = 0.1
"""This share of the dictionaries may find a bar that was not drawn anew: such a row
replaces the one before it.
"""
FINE = 0.01
"""Part of a step to which a clock has to be known to be finer than one of whole
seconds.
"""


CLOCKS_S = 2.0
"""Seconds by which the bars of one training's launchers differ."""


class Drawn(NamedTuple):
    """Bars of one total as they were drawn, without those that repeat the step before."""

    step: Column
    clock_s: Column
    """Whole seconds."""
    line: Column
    at: Column
    """Index among the bars of all totals."""


NOT_DRAWN = Drawn(*np.zeros((4, 0), np.int64))


def bars_by_total(bars: Columns) -> dict[int, Drawn]:
    """Total -> its bars. A total that appears first stands first."""
    step, total, clock, line = bars.columns("step", "total", "clock_s", "line")
    order = np.argsort(total, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(total[order])) + 1) if len(order) else []
    drawn = {}
    for group in sorted(groups, key=lambda group: int(group[0])):
        valid = group[(step[group] > 0) & (step[group] <= total[group])]
        anew = valid[np.diff(step[valid], prepend=0) != 0]
        drawn[int(total[group[0]])] = Drawn(step[anew], clock[anew], line[anew], anew)
    return drawn


def rename_evaluations(bars: Columns, printed: Columns, ends: Column) -> None:
    """Give the bars of evaluations, with as many batches as the training has steps, a
    total of their own.

    Such a bar begins again, has no dictionary of a step, and its results are among the
    ``ends``, counts of bars; then the training's goes on where it stood.
    """
    step, total = bars.columns("step", "total")
    begins = np.flatnonzero((np.diff(step) < 0) | (np.diff(total) != 0)) + 1
    stated = printed.column("bars")
    for end in np.unique(ends).tolist():
        at = int(np.searchsorted(begins, end)) - 1
        if at < 0:
            continue
        begin = int(begins[at])
        # Quick batches draw few bars: the last one may be less than a distance before the end.
        last, next_one = step[end - 1], 2 * step[end - 1] - step[max(end - 2, begin)]
        if last != total[end - 1] and next_one <= total[end - 1]:
            continue
        stood = step[begin - 1]
        goes_on = step[end] >= stood if end < len(step) else stood == total[begin]
        trained = ((stated > begin) & (stated <= end)).any()
        if total[begin - 1] == total[begin] and goes_on and not trained:
            for bar in range(begin, end):
                row = dict(zip(BAR_TYPES, bars.row(bar), strict=True))
                bars.put(bar, (row | {"total": -int(total[bar])}).values())


def longest_total(drawn: dict[int, Drawn], at_least: int) -> int:
    """The total of the bars that ran longest: the training's, whose time includes
    evaluation. 0 if none is so large.
    """
    length = {}
    for total, bars in drawn.items():
        length[total] = (bars.clock_s.max(initial=-1), len(bars.step))
    return max((total for total in length if total >= at_least), key=length.__getitem__, default=0)


def bar_rows(drawn: Drawn, planned: int | None = None) -> Rows:
    """The time between a bar and the one before it, over the steps between them.
    Several launchers draw them.

    ``planned``: the last planned step, after which another training begins.
    """
    rows, usual = Rows(), usual_distance(drawn.step)
    planned = None if _several_launchers(drawn) else planned
    before, before_s, last = LARGEST, 0.0, 0
    bars: Iterator[tuple[int, float, int, int]] = zip(
        *(column.data for column in drawn), strict=True
    )
    for step, clock_s, line, _ in bars:
        if (
            step <= before or clock_s < before_s
        ):  # the first one, another launcher's bar, or a restart
            before, before_s = (step, clock_s) if step > usual else (0, 0.0)
            last = before
        if clock_s > before_s:
            time_s = (clock_s - before_s) / (step - before)
            rows.add(Step(step, time_s, line, interval=step - before), end=planned)
            before, before_s = step, clock_s
        elif step > last:  # within a second: the next row with a time covers this one too
            rows.add(Step(step, None, line), end=planned)
        last = max(last, step)
    return rows


def _several_launchers(drawn: Drawn) -> bool:
    """Whether bars of one step show one time: that of one training, which each launcher
    draws.
    """
    order = np.argsort(drawn.step, kind="stable")
    again = np.diff(drawn.step[order]) == 0
    apart = np.abs(np.diff(drawn.clock_s[order]))[again]
    return len(apart) > 0 and float(np.median(apart)) <= CLOCKS_S


def runs(dictionaries: Columns) -> Column:
    """The number of each dictionary's run, from 0: an epoch that falls begins another
    run.
    """
    epoch = dictionaries.column("epoch")
    return np.cumsum(np.diff(np.where(epoch == NO_VALUE, 0.0, epoch), prepend=0.0) < 0)


def quantities(dictionaries: Columns, step: Column) -> dict[str, dict[int, float]]:
    """Quantity -> number of the step -> value, of those that the dictionaries have."""
    stated = {name: dictionaries.column(name) for name in (*QUANTITIES, *RATES)}
    found = {}
    for name, values in stated.items():
        if (values != NO_VALUE).any():
            found[name] = {
                int(step[at]): float(values[at]) for at in np.flatnonzero(values != NO_VALUE)
            }
    return found


def tokens(dictionaries: Columns, step: Column, clock: Column) -> dict[int, float]:
    """Number of the step -> tokens of a step, of all ranks, since the dictionary
    before.

    Where the tokens that were seen are not printed, they follow from the mean rate and
    the ``clock`` (s).
    """
    seen, rate = dictionaries.columns("tokens_seen", "mean_tokens_per_s")
    counted = np.full(len(clock), np.nan)
    np.multiply(rate, clock, out=counted, where=(rate > 0) & (clock > 0))
    seen = np.where(seen == NO_VALUE, counted, seen)
    # A resumed run has also seen what was read before.
    start = 0.0 if step[0] <= usual_distance(step) else np.nan
    steps, read = np.diff(step, prepend=0), np.diff(seen, prepend=start)
    stated = (steps > 0) & (read > 0)
    return dict(zip(step[stated].tolist(), (read[stated] / steps[stated]).tolist(), strict=True))


def dictionary_rows(
    dictionaries: Columns,
    step: Column,
    clock: Column,
    drawn: Drawn,
    planned: int | None,
    average_s: float | None,
) -> Rows:
    """Rows with times: their own, or from their own ``clock``, or from the training's
    bars, or the average.
    """
    measured, line, loss, norm = dictionaries.columns("step_time_s", "line", "loss", "grad_norm")
    average = (
        NO_VALUE if average_s is None or len(drawn.step) or clock[0] != NO_VALUE else average_s
    )
    clock = np.where(clock == NO_VALUE, clocks(step, drawn), clock)
    times, intervals = (
        np.where(measured == NO_VALUE, average, measured),
        np.ones(len(step), np.int64),
    )
    timed = (measured == NO_VALUE) & (clock != NO_VALUE)
    first_clock = np.argmax(clock != NO_VALUE)
    # A resumed run's clock does not cover the steps that were made before: its first
    # row has no time.
    resumed = bool(step[0] > usual_distance(step))
    start = (
        (int(step[first_clock]), float(clock[first_clock])) if resumed and timed.any() else (0, 0.0)
    )
    # Two processes may print a step, at slightly different times: it took as long as
    # the first one says.
    anew = np.diff(step[timed], prepend=-1) != 0
    printed = np.cumsum(anew) - 1
    seconds, between = _between(step[timed][anew], clock[timed][anew], *start, first=int(step[0]))
    times[timed], intervals[timed] = seconds[printed], between[printed]
    columns = {"step": step, "line": line, "loss": loss, "grad_norm": norm}
    columns["tokens_per_s_per_gpu"] = dictionaries.column("tokens_per_s_per_gpu")
    columns |= {"step_time_s": times, "interval": intervals}
    rows, run = Rows(), runs(dictionaries)
    for part in np.split(np.arange(len(run)), np.flatnonzero(np.diff(run)) + 1):
        rows.new_segment()
        rows.extend({name: column[part] for name, column in columns.items()}, end=planned)
    return rows


def _between(
    step: Column, clock: Column, before: int, before_s: float, first: int
) -> tuple[Column, Column]:
    """Seconds per step, and steps, since the row before on which the clock was another;
    at first since ``before``.
    """
    earlier = np.append(before_s, clock)[:-1]
    again = (clock < earlier) & (step <= first)  # training began again
    earlier[again] = 0.0
    moved = clock != earlier
    # Within one second of the clock nothing is known: the next row with a time covers
    # this one too.
    last = np.maximum.accumulate(np.where(moved | again, np.arange(len(step)), -1))
    since = np.where(last >= 0, np.where(moved, step, 0)[last], before) if len(step) else step
    since = np.where(again, 0, np.append(before, since)[:-1])
    interval = np.clip(step - since, 1, None)
    seconds = np.where((clock > earlier) & (step > since), (clock - earlier) / interval, NO_VALUE)
    return seconds, np.minimum(interval, LONGEST_INTERVAL)


def numbers(
    dictionaries: Columns, bars: Columns, planned: int | None, every: int, resumed: int
) -> Column:
    """The step of each dictionary: its own; else that of the bar before or after it;
    else counted.

    The bar before is mostly the dictionary's own, but a terminal overwrites it; the bar
    after is it drawn again. Bars on another stream may all come first, or last: then a
    dictionary comes after ``every`` steps. Counting without bars and epochs numbers the
    rows, and not the steps. ``planned``: the planned steps if they are no guess.
    ``resumed``: the steps that the last run found in a checkpoint.
    """
    step, drawn = dictionaries.columns("step", "bars")
    bar_step, total = bars.columns("step", "total")
    training = np.full(len(total), True) if planned is None else total == planned
    bar_step, at = bar_step[training], np.append(0, np.cumsum(training))[drawn]
    before = np.where(step > 0, step, np.append(0, bar_step)[at])
    after = np.where(at < np.append(at[1:], len(bar_step)), np.append(bar_step, 0)[at], 0)
    after = np.where(after <= LONGEST_INTERVAL, after, 0)

    numbered = bool((step != NO_COUNT).all())
    cut = after[-1] == 0  # a log may end with a dictionary
    stuck_before = int((np.diff(before, prepend=-1) == 0).sum())
    stuck_after = int((np.diff(after, prepend=-1) == 0).sum())
    most = MOST_STUCK * len(step)
    by_before = not (before <= 0).any() and stuck_before <= most
    by_after = int((after <= 0).sum()) == cut and stuck_after <= most
    if not numbered and by_after and (not by_before or stuck_after < stuck_before):
        steps = np.where(after > 0, after, before)
        if cut and len(steps) > 1:
            steps[-1] = max(steps[-1], steps[-2] + usual_distance(steps[:-1]))
        return steps
    if numbered or by_before:
        return before
    return _counted(runs(dictionaries), every, resumed)


def _counted(run: Column, every: int, resumed: int) -> Column:
    """Steps by the number of each dictionary; those of the last run begin after the
    ``resumed`` ones, if any.
    """
    place = np.arange(len(run))
    again = (run == run[-1]) & (resumed > 0)
    return every * (place + 1) + np.where(again, resumed - every * np.searchsorted(run, run[-1]), 0)


def finer(clock: Column, mean_s: Column, step: Column) -> Column:
    """The clock of the mean time of all steps so far, of four digits, if it agrees with
    the whole seconds.
    """
    told = mean_s * step
    if not (mean_s > 0).all() or (np.abs(told - clock) > 1).any() or len(step) < 2:
        return clock
    error_s = 5e-4 * 10 ** np.floor(np.log10(mean_s)) * step
    if error_s.max() <= FINE * float(np.median(np.diff(told))):
        return told
    return clock


def clocks(step: Column, drawn: Drawn) -> Column:
    """The clock of each step's last bar; NO_VALUE for a step without one."""
    if not len(drawn.step):
        return np.full(len(step), NO_VALUE)
    order = np.argsort(drawn.step, kind="stable")
    bar_step, bar_clock = drawn.step[order], drawn.clock_s[order]
    at = np.maximum(np.searchsorted(bar_step, step, side="right") - 1, 0)
    return np.where(bar_step[at] == step, bar_clock[at], NO_VALUE)


def with_losses(rows: Rows, printed: Rows) -> Rows:
    """The ``rows`` of bars with the losses and gradient norms that the dictionaries
    printed of their steps.
    """
    step, stated = rows.column("step"), printed.column("step")
    order = np.argsort(stated, kind="stable")
    at = np.searchsorted(stated[order], step, side="right") - 1
    stated_here = (at >= 0) & (stated[order][at] == step)
    changed = {}
    for name in ("loss", "grad_norm"):
        changed[name] = np.where(stated_here, printed.column(name)[order][at], NO_VALUE)
    rates = printed.column("tokens_per_s_per_gpu")
    by_step = dict(zip(stated.tolist(), rates.tolist(), strict=True))
    spread = spread_over(by_step, rows)
    changed["tokens_per_s_per_gpu"] = np.array(
        [spread.get(number, NO_VALUE) for number in step.tolist()]
    )
    return rows.chosen(slice(None), **changed)


def spread_over(by_step: dict[int, float], rows: Rows) -> dict[int, float]:
    """Number of each row -> the value that was printed at this step, or next after it."""
    stated, step = np.array(sorted(by_step)), np.unique(rows.column("step"))
    at = np.searchsorted(stated, step)
    inside = at < len(stated)
    found = {}
    for number, index in zip(step[inside], at[inside], strict=True):
        found[int(number)] = by_step[int(stated[index])]
    return found


def usual_distance(steps: Column) -> float:
    """Usual number of steps from one row to the next; the number of a single row."""
    gaps = np.diff(steps)
    gaps = gaps[gaps > 0]
    if len(gaps):
        return float(np.median(gaps))
    return float(steps[0])
