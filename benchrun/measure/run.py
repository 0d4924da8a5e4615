"""A run that was measured from its log."""

from dataclasses import dataclass

from benchrun.logs import Log
from benchrun.rundir.folder import RunDir

from .model import Metrics
from .telemetry import Sampled


@dataclass(frozen=True)
class RunMeasurement:
    """One run's log and its numbers."""

    run: RunDir
    log: Log
    metrics: Metrics
    samples: Sampled | None
    """State of the GPUs; None if nothing was sampled."""
