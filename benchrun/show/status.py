"""The states of runs as aligned lines."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

from benchrun.jobs.endings import symptoms

from .table import Table, plain

MOST_LETTERS = 100
"""Letters of a note."""
TITLES = ("RUN", "STATE", "JOB", "NODES", "AGE", "STEP", "STEP TIME", "NOTE")


def status_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows of ``status --json`` for a reader, with a heading. What a terminal would
    obey becomes ``?``.
    """
    yield from plain(Table(TITLES, [*map(_cells, rows)])).splitlines()


def _note(row: Mapping[str, Any]) -> str:
    """Reason why a run is in its state, its log's first: one line, of which ``status
    --json`` has the rest. Empty for one that completed."""
    if row["state"] == "completed":
        return ""
    evidence = row["evidence"]
    found = [*symptoms(evidence), row["note"], *evidence]
    text = "; ".join(dict.fromkeys(filter(None, found)))
    return shorten(text, MOST_LETTERS, placeholder=" ...")


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    step = row["last_step"]
    planned = row["planned_steps"]
    step_s = row["step_time_s"]
    # A local job is called by its folder.
    job = "local" if "/" in (row["job"] or "") else row["job"] or ""
    cells = (
        row["run_id"],
        row["state"],
        job,
        row["nodes"],
        age(row["age_s"]),
        f"{step} of {planned}" if step else "",
        f"{step_s:.3g} s" if step_s else "",
        _note(row),
    )
    return tuple("".join(char if char.isprintable() else "?" for char in cell) for cell in cells)


def age(seconds: float) -> str:
    """A time in the largest unit of which there are two: ``95 s``, ``12 min``, ``5 h``,
    ``3 d``.
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
