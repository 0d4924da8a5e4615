"""The last look of a job's watchdog at its log."""

from __future__ import annotations

from pydantic import ValidationError

from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import PROGRESS, Progress


def progress_of(run: RunDir) -> Progress | None:
    """None where no watchdog looked yet, or the file is damaged."""
    document = run.read_json(PROGRESS)
    try:
        return Progress.model_validate(document) if document else None
    except ValidationError:
        return None
