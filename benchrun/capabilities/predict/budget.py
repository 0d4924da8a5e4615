"""What a training costs: GPU-hours, days, money and energy, from its step time."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
SHOWN = {
    "gpu_hours": "GPU-hours",
    "time_to_train_days": "days",
    "cost": "cost",
    "energy_mwh": "MWh",
}
"""Key of the document -> words of a table."""
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)([KMBT]?)", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """What the user pays for, and its price."""

    tokens: float | None = None
    """Tokens to train; None for those of the run's own steps."""
    price: float | None = None
    """Price of a GPU-hour, in any currency."""
    power_w: float | None = None
    """Power of a GPU with its share of the node, in W."""

    @property
    def stated(self) -> bool:
        """Whether the user asked for costs."""
        return self != NOT_STATED

    def document(
        self, num_gpus: int, steps: int, tokens_per_step: float, step_s: Mapping[str, float]
    ) -> dict[str, Any]:
        """Costs, each with the median, low and high of ``step_s``; ``steps`` are those of
        the run itself."""
        tokens = self.tokens or tokens_per_step * steps
        hours = {}
        for name, seconds in step_s.items():
            hours[name] = tokens / tokens_per_step * seconds * num_gpus / 3600
        found: dict[str, Any] = {"tokens": round(tokens), "gpu_hours": hours}
        if self.tokens:
            found["time_to_train_days"] = _times(hours, 1 / (24 * num_gpus))
        if self.price:
            found["cost"] = _times(hours, self.price)
        if self.power_w:
            found["energy_mwh"] = _times(hours, self.power_w / 1e6)
        return found


NOT_STATED = Budget()


def amount(text: str) -> float | None:
    """``15T``, ``2e9`` or ``2.5`` as a number above zero; None for anything else."""
    match = _AMOUNT.fullmatch(text.strip().replace("_", ""))
    if match is None:
        return None
    value = float(match[1]) * UNITS[match[2].upper()]
    return value if 0 < value < math.inf else None


def short(value: float) -> str:
    """``value`` in three digits or whole; from a million on in millions."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _times(values: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in values.items()}
