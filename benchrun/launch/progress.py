"""What the watchdog of a job writes beside its log: how long no line and no step came."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt, ValidationError

from benchrun.launch.rundir import RunDir
from benchrun.model import Frozen

PROGRESS = "progress.json"


class Progress(Frozen):
    """The last look of the job's watchdog at its log (templates/parts/watchdog.sh.j2)."""

    schema_version: Literal[1] = 1
    checked: str
    """When it looked, UTC."""
    quiet_s: NonNegativeInt
    """Seconds since the log last grew. Slurm's own words at the end come after the last look."""
    no_step_s: NonNegativeInt
    """Seconds since a step was last seen, or since the job began."""
    step_lines: NonNegativeInt = 0
    """Lines of steps so far."""
    step_file: Literal["stdout.log", "stderr.log"] | None = None
    """Where the last of them was found; None before the first."""
    step_offset: NonNegativeInt = 0
    """From which byte on."""


def progress_of(run: RunDir) -> Progress | None:
    """None where no watchdog looked yet, or the file is damaged."""
    document = run.read_json(PROGRESS)
    try:
        return Progress.model_validate(document) if document else None
    except ValidationError:
        return None
