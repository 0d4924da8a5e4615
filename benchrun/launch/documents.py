"""Reading the small files that a job and the launcher write. A damaged file gives None, never an exception."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

LIMIT = 64 << 20
"""Bytes of a document that are read; a run's documents are far smaller."""
# Fields that are read: an event without them is ignored.
_FIELDS = {"submitted": ("job",), "refused": ("reason",), "state": ("state", "phase")}


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Closes the file or directory in the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_text(path: Path, limit: int = LIMIT) -> str | None:
    """The first ``limit`` bytes of a file; None where it is missing or no regular file (a directory, a pipe)."""
    try:
        with closing(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as file:
            if stat.S_ISREG(os.fstat(file).st_mode):
                return open(file, "rb", closefd=False).read(limit).decode(errors="replace")
    except (OSError, ValueError):
        pass
    return None


def as_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in ``text``; None where it holds none."""
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def as_event(line: str) -> dict[str, Any] | None:
    """The event in a line of events.jsonl; None where it holds none."""
    event = as_object(line)
    if event is None:
        return None
    needed = ("time", "event", *_FIELDS.get(str(event.get("event")), ()))
    return event if all(isinstance(event.get(field), str) for field in needed) else None


def epoch(event: dict[str, Any] | None) -> float | None:
    """The time of an event in seconds since the epoch; None where it has none."""
    try:
        return datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S%z").timestamp() if event else None
    except (ValueError, OverflowError):
        return None
