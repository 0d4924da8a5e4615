"""The samples of a node's GPUs from the CSV file that templates/telemetry.sh writes."""

from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

REASONS = (
    "idle",
    "application_clocks",
    "power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal",
    "hw_thermal",
    "power_brake",
    "display_clocks",
)
"""NVML's clocks event reasons (nvml.h, nvmlClocksEventReason*), the one of the lowest
bit first.
"""
COLUMNS = (
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_w",
    "power_limit_w",
    "temperature_c",
    "utilisation_percent",
    "memory_mib",
)
SAMPLE = np.dtype([("time", "f8"), *((name, "f8") for name in COLUMNS), ("reasons", "i8")])
"""One sample of a GPU: seconds since 1970, values (NaN if it reports none), the bits of
REASONS.
"""
Samples = NDArray[Any]
"""The samples of one GPU in the order of time."""


def read(text: str) -> dict[int, Samples]:
    """The samples of each GPU of a host's file, by index in nvidia-smi. Other lines
    than whole samples are left out.
    """
    rows: dict[int, list[tuple[float, ...]]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(COLUMNS) + 3:
            continue
        time, gpu, *values, reasons = cells
        with suppress(ValueError):  # the header, or half a line
            sample = (_seconds(time), *map(_number, values), _bits(reasons))
            rows.setdefault(int(gpu), []).append(sample)
    return {gpu: np.array(sorted(samples), SAMPLE) for gpu, samples in sorted(rows.items())}


def _seconds(time: str) -> float:
    written = datetime.fromisoformat(time.replace("/", "-"))
    return written.replace(tzinfo=timezone.utc).timestamp()


def _number(cell: str) -> float:
    """The value; NaN if the GPU reports none."""
    if _missing(cell):
        return float("nan")
    return float(cell)


def _bits(cell: str) -> int:
    """Bits of a cell of REASONS."""
    if _missing(cell):
        return 0
    return int(cell, 16) % (1 << len(REASONS))


def _missing(cell: str) -> bool:
    return not cell or cell.startswith(("[", "N/A"))
