"""The samples of a node's GPUs from a CSV file: that of a run, nvidia-smi's own, or one
with DCGM's field names.
"""

import re
from collections.abc import Mapping, Sequence
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
HEADER = ("time", "gpu", *COLUMNS, "reasons")
NAMES: Mapping[str, tuple[str, ...]] = {
    # Other names: those of nvidia-smi --help-query-gpu, and DCGM's (dcgm_fields.h) in
    # small letters.
    "time": ("timestamp",),
    "gpu": ("index", "gpu_id"),
    "sm_clock_mhz": ("clocks.sm", "clocks.current.sm", "dcgm_fi_dev_sm_clock"),
    "memory_clock_mhz": ("clocks.mem", "clocks.current.memory", "dcgm_fi_dev_mem_clock"),
    "power_w": ("power.draw", "power.draw.average", "dcgm_fi_dev_power_usage"),
    "power_limit_w": ("power.limit", "enforced.power.limit", "dcgm_fi_dev_power_mgmt_limit"),
    "temperature_c": ("temperature.gpu", "dcgm_fi_dev_gpu_temp"),
    "utilisation_percent": ("utilization.gpu", "dcgm_fi_dev_gpu_util"),
    "memory_mib": ("memory.used", "dcgm_fi_dev_fb_used"),
    "reasons": (
        "clocks_event_reasons.active",
        "clocks_throttle_reasons.active",
        "dcgm_fi_dev_clocks_event_reasons",
        "dcgm_fi_dev_clock_throttle_reasons",
    ),
}
_KNOWN = {other: name for name, others in NAMES.items() for other in (name, *others)}
_UNIT = re.compile(r"\s*(\[.*\])?$")


def read(text: str) -> dict[int, Samples]:
    """The samples of each GPU of a host's file, by index in nvidia-smi. Malformed lines
    are left out.

    The header names the columns; without one they are those of HEADER.
    """
    header: Sequence[str] = HEADER
    rows: dict[int, list[tuple[float, ...]]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if "time" in line.lower() and (named := _header(cells)):
            header = named
        elif len(cells) == len(header):
            try:
                row = dict(zip(header, cells, strict=True))
                rows.setdefault(int(row["gpu"]), []).append(_sample(row))
            except ValueError:
                continue  # half a line
    return {gpu: np.array(sorted(samples), SAMPLE) for gpu, samples in sorted(rows.items())}


def _header(cells: Sequence[str]) -> list[str] | None:
    """Our names of the columns, "" for those that nobody needs; None for a line that is
    no header.
    """
    names = [_KNOWN.get(_UNIT.sub("", cell).lower(), "") for cell in cells]
    if "time" in names and "gpu" in names:
        return names
    return None


def _sample(row: Mapping[str, str]) -> tuple[float, ...]:
    written = datetime.fromisoformat(row["time"].replace("/", "-"))
    at = written.replace(tzinfo=timezone.utc).timestamp()
    return at, *(_number(row.get(name, "")) for name in COLUMNS), _bits(row.get("reasons", ""))


def _number(cell: str) -> float:
    """The value without its unit; NaN if the GPU reports none."""
    if _missing(cell):
        return float("nan")
    return float(cell.split()[0])


def _bits(cell: str) -> int:
    """Bits of a cell of REASONS: nvidia-smi writes a hexadecimal number, DCGM a decimal
    one.
    """
    if _missing(cell):
        return 0
    return int(cell, 16 if cell.lower().startswith("0x") else 10) % (1 << len(REASONS))


def _missing(cell: str) -> bool:
    return not cell or cell.startswith(("[", "N/A"))
