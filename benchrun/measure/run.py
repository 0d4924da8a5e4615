"""A run that was measured from its log."""

from dataclasses import dataclass

from benchrun.logs import Log
from benchrun.measure.model import Metrics
from benchrun.measure.telemetry import Sampled
from benchrun.rundir.folder import RunDir


@dataclass(frozen=True)
class RunMeasurement:
    """One run's log and its numbers."""

    run: RunDir
    log: Log
    metrics: Metrics
    samples: Sampled | None
    """State of the GPUs; None if nothing was sampled."""
