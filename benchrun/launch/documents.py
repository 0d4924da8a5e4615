"""The small files that a job and the launcher leave, as typed values. Whatever stands in a file, reading is total."""

from __future__ import annotations

import calendar
import json
import os
import stat
import time
from pathlib import Path
from typing import Any, TypedDict

LIMIT = 64 << 20
"""Bytes of a document that are read; those of a run are far below."""


class Done(TypedDict):
    """done.json: what the job's EXIT trap wrote."""

    exit_code: int
    signal: str | None
    restarts: int
    job_id: str
    host: str
    no_step_s: int | None
    """Seconds without a step after which the job ended itself."""


# Of these events the fields are used, so an event without them is none.
_FIELDS = {"submitted": ("job",), "refused": ("reason",), "state": ("state", "phase")}


def read_text(path: Path, limit: int = LIMIT) -> str | None:
    """The first ``limit`` bytes of a file; None where there is none, or something else: a directory, a pipe, a loop."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return None
            with os.fdopen(file, "rb", closefd=False) as stream:
                return stream.read(limit).decode(errors="replace")
        finally:
            os.close(file)
    except (OSError, ValueError):
        return None


def read_object(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is no such thing."""
    return as_object(read_text(path))


def as_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in ``text``; None where it is something else."""
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def as_event(line: str) -> dict[str, Any] | None:
    """One line of events.jsonl; None where it is no event."""
    event = as_object(line)
    if event is None:
        return None
    needed = ("time", "event", *_FIELDS.get(str(event.get("event")), ()))
    return event if all(isinstance(event.get(field), str) for field in needed) else None


def as_done(document: dict[str, Any] | None) -> Done | None:
    """done.json with the right types; None where it says no exit code, or what is no such file's."""
    if document is None:
        return None
    code, signal, restarts = document.get("exit_code"), document.get("signal"), document.get("restarts", 0)
    job, host = document.get("job_id", ""), document.get("host", "")
    if type(code) is not int or not 0 <= code <= 255 or type(restarts) is not int or restarts < 0:
        return None
    no_step_s = document.get("no_step_s")
    if type(no_step_s) is not int:
        no_step_s = None
    if not isinstance(signal, str | None) or not isinstance(job, str) or not isinstance(host, str):
        return None
    return Done(exit_code=code, signal=signal, restarts=restarts, job_id=job, host=host, no_step_s=no_step_s)


def epoch(event: dict[str, Any] | None) -> float | None:
    """The time of an event in seconds since the epoch; None where it holds none."""
    try:
        return float(calendar.timegm(time.strptime(event["time"], "%Y-%m-%dT%H:%M:%SZ"))) if event else None
    except (ValueError, OverflowError):
        return None
