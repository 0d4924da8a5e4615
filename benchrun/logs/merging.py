"""The logs of a run's files -> one Log."""

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .problems import handled_again
from .records import Facts, Log, Problem
from .rows import TYPES, Rows
from .serving import Served


def followed(found: Sequence[Problem], rows: Rows) -> tuple[Problem, ...]:
    """The problems of one file, each with what its rows show after it."""
    segments, lines = rows.columns("segment", "line")
    firsts = lines[np.unique(segments, return_index=True)[1]]
    restarted, ends = firsts[1:].max(initial=0), lines.max(initial=0)
    problems = []
    for problem in found:
        line = problem.line or 0
        if 0 < line < restarted:
            problem = problem._replace(then="restart")
        elif 0 < line < ends:
            problem = problem._replace(then="steps")
        problems.append(problem)
    return tuple(handled_again(problems))


def merged(name: str, logs: Sequence[Log]) -> Log:
    """One log. A step that several files have is one row: the later file's, filled up
    from the earlier ones'.
    """
    problems = tuple(_survived(logs))
    seen = [log for log in logs if len(log.steps) or log.results or log.served]
    if not seen:
        return replace(logs[0], file=name, facts=logs[-1].facts, problems=problems)
    longest = max(seen, key=lambda log: len(log.steps))
    same = [log for log in seen if log.framework == longest.framework]
    rows, facts, served, ended = longest.steps, Facts(), list[Served](), False
    results: dict[str, float] = {}
    for log in same:
        results |= log.results
        served += log.served
        ended |= log.ended
    for log in reversed(same):
        facts.fill(log.facts)
    if len(rows):
        rows = functools.reduce(_filled, (log.steps for log in same))
    return replace(
        longest,
        file=name,
        steps=rows,
        facts=facts,
        problems=problems,
        results=results,
        served=served,
        ended=ended,
    )


def _survived(logs: Sequence[Log]) -> list[Problem]:
    """The problems of all files; after those of an earlier one the run began again."""
    last = max(log.steps.last_step or 0 for log in logs)
    problems: list[Problem] = []
    for log in logs:
        if len(log.steps) and (log.steps.last_step or 0) < last:
            problems += [problem._replace(then="restart") for problem in log.problems]
        else:
            problems += log.problems
    return problems


def _filled(earlier: Rows, later: Rows) -> Rows:
    """The rows of two files in the order of segment and step; one that both have is the
    later's, filled up.
    """
    both = {name: np.concatenate([earlier.column(name), later.column(name)]) for name in TYPES}
    order = np.lexsort((both["step"], both["segment"]))
    doubled = (np.diff(both["step"][order]) == 0) & (np.diff(both["segment"][order]) == 0)
    for name, column in both.items():
        missing = np.flatnonzero(doubled & (column[order][1:] == later.none[name]))
        column[order[missing + 1]] = column[order[missing]]
    chosen = order[np.append(~doubled, True)]
    segments = max(earlier.segments, later.segments)
    return Rows.of({name: column[chosen] for name, column in both.items()}, segments)
