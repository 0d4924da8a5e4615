"""Several files of one run -> one log: of ranks, of nodes, of stdout and stderr, or one after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from benchrun.parse.columns import Column, Columns
from benchrun.parse.records import Facts, Log, Problem
from benchrun.parse.rows import TYPES, Rows

UNKNOWN = "unknown"
"""The framework of a log without a step."""


def followed(problems: Sequence[Problem], rows: Rows) -> Iterator[Problem]:
    """The problems of one file, each with what its rows show after it."""
    segments, lines = rows.columns.columns("segment", "line")
    firsts = lines[np.unique(segments, return_index=True)[1]]
    restarted, ends = firsts[1:].max(initial=0), lines.max(initial=0)
    for problem in problems:
        line = problem.line or 0
        if line and line < restarted:
            yield problem._replace(then="restart")
        elif line and line < ends:
            yield problem._replace(then="steps")
        else:
            yield problem


def merged(name: str, logs: Sequence[Log]) -> Log:
    """One log. A step that several files have is one row: the later file's, filled up from the earlier ones'."""
    with_rows = [log for log in logs if len(log.steps) or log.results]
    last = max((log.steps.last_step or 0 for log in with_rows), default=0)
    problems = tuple(
        problem._replace(then="restart") if len(log.steps) and (log.steps.last_step or 0) < last else problem
        for log in logs
        for problem in log.problems
    )
    if not with_rows:
        return replace(logs[0], file=name, problems=problems)
    longest = max(with_rows, key=lambda log: len(log.steps))
    same = [log for log in with_rows if log.framework == longest.framework]
    facts = Facts()
    for log in reversed(same):
        facts.fill(log.facts)
    rows = longest.steps
    if len(same) > 1:
        rows = Rows.of(reduce(_filled, (log.steps.columns.table() for log in same)), max(log.segments for log in same))
    return replace(longest, file=name, steps=rows, facts=facts, problems=problems)


def _filled(earlier: Column, later: Column) -> Column:
    """The rows of two files in the order of segment and step; one that both have is the later's, filled up."""
    both: Column = np.concatenate([earlier, later])
    both = both[np.lexsort((both["step"], both["segment"]))]
    doubled = (np.diff(both["step"]) == 0) & (np.diff(both["segment"]) == 0)
    for name, none in Columns(TYPES).none.items():
        missing = np.flatnonzero(doubled & (both[name][1:] == none))
        both[name][missing + 1] = both[name][missing]
    merged: Column = both[np.append(~doubled, True)]
    return merged
