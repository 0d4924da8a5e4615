"""The clocks at which GPUs have the peaks of their data sheets, and their power."""

import functools

from pydantic import BaseModel

from benchrun.paths import table


class Clock(BaseModel, frozen=True):
    """Clock and power of one GPU."""

    gpu: str
    peak_clock_mhz: float
    """At this clock the dense peak holds."""
    power_w: float | None
    """Nominal power limit; None where the site chooses it."""
    capped_clock_mhz: float | None
    """Lowest median clock of a kept run at that limit; None where none was measured."""
    source: str

    def __str__(self) -> str:
        return f"{self.peak_clock_mhz:.0f} MHz"


@functools.cache
def clocks() -> dict[str, Clock]:
    """By the GPU's name in the hardware table."""
    return {
        row["gpu"]: Clock.model_validate({name: value or None for name, value in row.items()})
        for row in table(__file__)
    }
