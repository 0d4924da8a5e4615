"""Reading the small files that a job and the launcher leave. Rubbish in a file is None, never an exception."""

from __future__ import annotations

import calendar
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchrun.spec.artifacts import Done

LIMIT = 64 << 20
"""Bytes of a document that are read; those of a run are far below."""


# Fields that are read: an event without them is ignored.
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
    """done.json; None where it has no exit code, or something that the job does not write."""
    if document is None:
        return None
    try:
        return Done.model_validate(document)
    except ValidationError:
        return None


def epoch(event: dict[str, Any] | None) -> float | None:
    """The time of an event in seconds since the epoch; None where it holds none."""
    try:
        return float(calendar.timegm(time.strptime(event["time"], "%Y-%m-%dT%H:%M:%SZ"))) if event else None
    except (ValueError, OverflowError):
        return None
