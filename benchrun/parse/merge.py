"""Several files of one run -> one log: of ranks, of nodes, of stdout and stderr, or one after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchrun.parse.order import by_segment
from benchrun.parse.records import Facts, Log, Rows

UNKNOWN = "unknown"
"""The framework of a log without a step."""


def merged(name: str, logs: Sequence[Log]) -> Log:
    """One log. A step that several files have is one row: the later file's, filled up from the earlier ones'."""
    with_rows = [log for log in logs if len(log.steps)]
    problems = tuple(problem for log in logs for problem in log.problems)
    if not with_rows:
        return replace(logs[0], file=name, problems=problems)
    longest = max(with_rows, key=lambda log: len(log.steps))
    same = [log for log in with_rows if log.framework == longest.framework]
    facts = Facts()
    for log in reversed(same):
        facts.fill(log.facts)
    rows = longest.steps
    if len(same) > 1:
        rows = Rows.of(by_segment([log.steps.columns for log in same]), max(log.segments for log in same))
    return replace(longest, file=name, steps=rows, facts=facts, problems=problems)
