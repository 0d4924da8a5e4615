"""Numbers as programs print them, and which of them a run may have."""

import re
from math import inf, nan
from typing import Any

from benchrun.vocabulary import LARGEST_SIZE, MOST_GPUS, MOST_LAYERS

LARGEST = 10**15
"""Steps, samples, tokens, times and rates above this are damaged numbers."""
FEW = (1 << 16) - 1
"""The most skipped steps of a row that are counted."""

_RATE = (1 / LARGEST, LARGEST, False)
LIMITS: dict[str, tuple[float, float, bool]] = {
    **dict.fromkeys(
        ("step_time_s", "tflops_per_gpu", "tokens_per_s_per_gpu", "mfu", "samples_per_s"), _RATE
    ),
    **dict.fromkeys(("clock_s", "consumed_samples"), (0, LARGEST, False)),
    "step": (0, LARGEST, True),
    "planned_steps": (1, LARGEST, True),
    **dict.fromkeys(("skipped", "nan"), (0, FEW, True)),
    "global_batch_size": (1, LARGEST_SIZE, True),
}
"""Column -> the lowest and highest credible value, and whether it must be a whole
number.
"""

PAYLOAD = r"\(\w{0,20}\)"
"""Regex of what C prints behind a NaN: ``-nan(ind)``, ``nan(0x7fffffff)``."""
NOT_FINITE = (
    rf"[-+]?(?:(?:nan|NaN|NAN)(?:{PAYLOAD})?|(?:inf|Inf|INF)(?:inity|INITY)?"
    r"|1\.#(?:[QS]NAN|IND|INF)\d{0,9})"
)
"""Regex of NaN and of infinity as programs print them, those on Windows too,
``1.#QNAN``.

A bar pads them like numbers, ``nan.0``.
"""
_NUMBER = re.compile(rf"(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|({NOT_FINITE})(?:\.0*)?)")


def number(text: str | None) -> float | None:
    """The number that ``text`` is, as a whole; None if it is anything else."""
    match = _NUMBER.fullmatch(text.strip()) if text is not None else None
    if match is None:
        return None
    if word := match[1]:  # a column without a value has -inf
        if "inf" in word.lower() and word[0] != "-":
            return inf
        return nan
    return float(match[0])


def stated_loss(text: str | None) -> float | None:
    """A loss as JSON or Python states it: ``null`` and ``None`` are what a program
    writes for NaN.
    """
    if text in ("null", "None"):
        return nan
    return number(text)


def positive(text: str | None) -> float | None:
    """A time or a rate: a number above 0, of credible size."""
    value: float | None = credible("step_time_s", number(text))
    return value


def count(text: str | None) -> int | None:
    """A whole number, not negative, of credible size."""
    value: int | None = credible("step", number(text))
    return value


def credible(column: str, value: float | None) -> Any:
    """``value`` as a row may hold it in this column; None beyond the LIMITS."""
    if value is None or column not in LIMITS:
        return value
    low, high, whole = LIMITS[column]
    if not low <= value <= high or (whole and value != int(value)):
        return None
    if whole:
        return int(value)
    return value


def significant(text: str) -> int:
    """The number of significant digits of a number as printed; a zero has none."""
    return len(re.sub(r"\D", "", re.split("[eE]", text)[0]).lstrip("0"))


def fact_of(name: str, value: int | None) -> int | None:
    """``value`` as a fact of the run; None for 0, and beyond what any run has."""
    most = {"num_gpus": MOST_GPUS, "num_layers": MOST_LAYERS, "planned_steps": LARGEST}.get(
        name, LARGEST_SIZE
    )
    if value and 0 < value <= most:
        return value
    return None


def seconds(clock: str) -> int:
    """Digits and colons as tqdm prints them, ``1:02:03`` -> seconds."""
    total = 0
    for part in clock.split(":")[-4:]:
        total = total * 60 + (int(part) if 0 < len(part) < 9 else 0)
    return total
