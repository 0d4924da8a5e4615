"""Several files of one run -> one log: of ranks, of nodes, of stdout and stderr, or one after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from benchrun.parse.records import Facts, Log, Problem
from benchrun.parse.rows import TYPES, Rows

UNKNOWN = "unknown"
"""The framework of a log without a step."""


def followed(problems: Sequence[Problem], rows: Rows) -> Iterator[Problem]:
    """The problems of one file, each with what its rows show after it."""
    segments, lines = rows.columns("segment", "line")
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
    last = max(log.steps.last_step or 0 for log in logs)
    problems = tuple(
        problem._replace(then="restart") if len(log.steps) and (log.steps.last_step or 0) < last else problem
        for log in logs
        for problem in log.problems
    )
    seen = [log for log in logs if len(log.steps) or log.results]
    if not seen:
        return replace(logs[0], file=name, problems=problems)
    longest = max(seen, key=lambda log: len(log.steps))
    same = [log for log in seen if log.framework == longest.framework]
    results = {name: result for log in same for name, result in log.results.items()}
    ended = any(log.ended for log in same)
    facts = Facts()
    for log in reversed(same):
        facts.fill(log.facts)
    rows = longest.steps
    if len(same) > 1 and len(rows):
        rows = reduce(_filled, (log.steps for log in same))
    return replace(longest, file=name, steps=rows, facts=facts, problems=problems, results=results, ended=ended)


def _filled(earlier: Rows, later: Rows) -> Rows:
    """The rows of two files in the order of segment and step; one that both have is the later's, filled up."""
    both = {name: np.concatenate([earlier.column(name), later.column(name)]) for name in TYPES}
    order = np.lexsort((both["step"], both["segment"]))
    doubled = (np.diff(both["step"][order]) == 0) & (np.diff(both["segment"][order]) == 0)
    for name, column in both.items():
        missing = np.flatnonzero(doubled & (column[order][1:] == later.none[name]))
        column[order[missing + 1]] = column[order[missing]]
    chosen = order[np.append(~doubled, True)]
    segments = max(earlier.segments, later.segments)
    return Rows.of({name: column[chosen] for name, column in both.items()}, segments)
