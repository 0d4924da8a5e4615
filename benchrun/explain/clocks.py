"""The clocks at which GPUs have the peaks of their data sheets, and their power."""

import functools

from pydantic import BaseModel

from benchrun.paths import table


class Clock(BaseModel, frozen=True):
    """Clock and power of one GPU."""

    gpu: str
    peak_clock_mhz: float
    """At this clock the dense peak holds."""
    power_w: float
    """Nominal power limit."""
    source: str


@functools.cache
def clocks() -> dict[str, Clock]:
    """By the GPU's name in the hardware table."""
    return {row["gpu"]: Clock.model_validate(row) for row in table(__file__)}
