"""One run with what was measured and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrun.compare.verdict import Verdict
from benchrun.spec.runspec import RunSpec

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics


@dataclass(frozen=True)
class RunResult:
    """One run: its measurement, the verdict it was given, and its ending."""

    run_id: str
    spec: RunSpec
    metrics: Metrics | None
    verdict: Verdict | None
    ending: str | None = None
    """None where it is not recorded."""

    @property
    def numbers(self) -> Metrics | None:
        """The metrics; None for an invalid, broken or incomplete run: its speed is no measurement."""
        metrics = self.metrics
        if metrics is None or (self.verdict and self.verdict.verdict == "invalid_run"):
            return None
        broken = self.ending not in (None, "completed") or metrics.complete is False or metrics.fatal is not None
        return None if broken else metrics

    @property
    def judgement(self) -> str:
        """The verdict, else the ending of a run that failed, else "not judged"."""
        if self.verdict:
            return self.verdict.verdict
        return self.ending if self.ending not in (None, "completed") else "not judged"
