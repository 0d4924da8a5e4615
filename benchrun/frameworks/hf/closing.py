"""The Trainer's summary against the rest of its log."""

from collections.abc import Iterator
from typing import NamedTuple

from benchrun.logs.records import Counted

from .facts import LAST_DIGIT

AGREES = 0.02
"""Relative distance of two statements that are both true."""
LONG, LONG_S = 1.5, 300.0
"""Factor and seconds by which the run time may exceed the clock of the last bar: the
last checkpoint is written after it.
"""


class ClosingRates(NamedTuple):
    """``train_runtime`` in s, ``train_steps_per_second``, ``train_samples_per_second``."""

    run_time_s: float
    steps_per_s: float | None
    samples_per_s: float | None

    def counted(self, steps: int, epochs: float | None) -> Counted | None:
        """The samples of each of ``steps`` steps in ``epochs`` epochs."""
        if not self.samples_per_s:
            return None
        step_s = self.run_time_s / steps
        # The last batch of an epoch may have a single sample.
        missing = min((epochs or steps) / steps, 1.0)
        return Counted(self.samples_per_s * step_s, missing, LAST_DIGIT / 2 * step_s)


def contradictions(summary: ClosingRates, steps: int, clock_s: float | None) -> Iterator[str]:
    """Sentences about what the summary of ``steps`` says otherwise than the log;
    ``clock_s``: the clock of the bar of the last step.
    """
    run_time_s, rate, _ = summary
    error = LAST_DIGIT / 2
    if rate and abs(rate - steps / run_time_s) > AGREES * rate + error:
        yield f"{steps} steps in {run_time_s:.4g} s are not {rate:g} steps/s, as the summary says"
    if clock_s and not (1 - AGREES) * clock_s - 1 <= run_time_s <= LONG * clock_s + LONG_S:
        yield f"the summary says {run_time_s:.4g} s, the bar of the last step {clock_s:.4g} s"
