"""The GPUs during the measured steps: telemetry/<host>.csv -> clocks, power, temperature, energy.

nvidia-smi samples each GPU once a second. Energy is that of the GPUs' boards alone, without hosts, network and cooling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

import numpy as np

from benchrun.metrics.statistics import Floats
from benchrun.model import Frozen

REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
"""NVML's clocks event reasons by bit (nvml.h, nvmlClocksEventReason*) -> readable names."""
THROTTLES = ("hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
"""Reasons that are faults of cooling or supply. ``power_cap`` is not: a GPU at full load runs at its power limit."""
UNDER_LOAD = 0.5
"""A GPU that draws at least this share of the largest power is under load."""
EDGE_S = 2.0
"""Largest distance of the first and last sample from the ends of the window; the power is constant beyond them."""
GAP_S = 10.0
"""Longer gaps between two samples make the energy unknown."""
COLUMNS = (
    *("sm_clock_mhz", "memory_clock_mhz", "power_w", "power_limit_w", "temperature_c", "utilisation_percent"),
    "memory_mib",
)


def percent(share: float) -> str:
    """Whole percent, ``under 1 %`` in place of 0."""
    return f"{100 * share:.0f} %" if share > 0.005 else "under 1 %"


class Readings(Frozen):
    """The samples of the window; None where the GPU reports no value."""

    samples: int
    sm_clock_mhz: float | None
    """The median."""
    sm_clock_min_mhz: float | None
    memory_clock_mhz: float | None
    """The median."""
    power_w: float | None
    """The mean, of one GPU."""
    power_limit_w: float | None
    """The lowest."""
    temperature_c: float | None
    """The highest."""
    utilisation_percent: float | None
    """The mean."""
    memory_gib: float | None
    """The highest, of one GPU."""
    reasons: dict[str, float]
    """Why a clock was below its maximum: share of the samples, 0 to 1."""
    throttled: float
    """Share of the samples with one of THROTTLES."""


class GpuReadings(Readings):
    """One GPU."""

    host: str
    gpu: int
    """Index in nvidia-smi."""
    energy_j: float | None


class Telemetry(Readings):
    """All GPUs of a run together."""

    gpus: int
    """How many were sampled throughout."""
    window: tuple[str, str]
    """UTC."""
    ends: Literal["log", "load"]
    """What defines the window's end: the log, or the last sample under load."""
    energy_j: float | None
    """Of all GPUs in the window; None unless every GPU of the run was sampled throughout."""
    tokens_per_joule: float | None

    @property
    def fault(self) -> str | None:
        """The faults that lowered clocks, in words."""
        faults = [f"{name} in {percent(self.reasons[name])}" for name in THROTTLES if self.reasons.get(name)]
        return f"throttled: {', '.join(faults)} of the samples" if faults else None


class Sampled(Frozen):
    """telemetry.json."""

    schema_version: Literal[1] = 1
    over_all: Telemetry
    gpus: tuple[GpuReadings, ...]


@dataclass(frozen=True)
class Trace:
    """One GPU's samples in the order of time; NaN where it reports no value."""

    host: str
    gpu: int
    time: Floats
    """Seconds since 1970."""
    columns: dict[str, Floats]
    reasons: tuple[int, ...]

    def within(self, start: float, end: float) -> Trace:
        """The samples from ``start`` to ``end``."""
        keep = (self.time >= start) & (self.time <= end)
        columns = {name: values[keep] for name, values in self.columns.items()}
        reasons = tuple(bits for bits, inside in zip(self.reasons, keep, strict=True) if inside)
        return Trace(self.host, self.gpu, self.time[keep], columns, reasons)

    def energy_j(self, start: float, end: float) -> float | None:
        """The power's integral, by trapezoids; None where samples are missing between ``start`` and ``end``."""
        power = self.columns["power_w"]
        valid = ~np.isnan(power)
        time, power = self.time[valid], power[valid]
        if not len(time) or time[0] > start + EDGE_S or time[-1] < end - EDGE_S:
            return None
        inside = (time > start) & (time < end)
        at = np.concatenate(([start], time[inside], [end]))
        if np.diff(at).max() > GAP_S:
            return None
        values = np.interp(at, time, power)
        return float(np.sum(np.diff(at) * (values[1:] + values[:-1]) / 2))


def sampled(
    files: Mapping[str, str], *, num_gpus: int, seconds: float, tokens: float, until: float | None = None
) -> Sampled | None:
    """The window's telemetry from the text of each host's file; None without samples of the run's own GPUs in it.

    The window is the ``seconds`` before ``until`` (when the last step ended by the log, in seconds since 1970), or
    before the last sample under load; ``tokens`` were trained in it. Where more GPUs were sampled than the run had,
    those under load in it are the run's; None if these are too many as well.
    """
    traces = [trace for host, text in sorted(files.items()) for trace in read(host, text)]
    end = until if until is not None else _load_end(traces)
    if end is None or seconds <= 0:
        return None
    start = end - seconds
    if len(traces) > num_gpus:
        traces = _under_load(traces, start, end)
        if len(traces) > num_gpus:
            return None
    inside = [trace.within(start, end) for trace in traces]
    if not any(len(trace.time) for trace in inside):
        return None
    energies = [trace.energy_j(start, end) for trace in traces]
    measured = [energy for energy in energies if energy is not None]
    total = sum(measured) if len(measured) == num_gpus else None
    gpus = tuple(
        GpuReadings(host=trace.host, gpu=trace.gpu, energy_j=energy, **_readings([trace]))
        for trace, energy in zip(inside, energies, strict=True)
        if len(trace.time)
    )
    over_all = Telemetry(
        gpus=len(measured),
        window=(_utc(start), _utc(end)),
        ends="load" if until is None else "log",
        energy_j=total,
        tokens_per_joule=tokens / total if total else None,
        **_readings(inside),
    )
    return Sampled(over_all=over_all, gpus=gpus)


def read(host: str, text: str) -> list[Trace]:
    """The GPUs of one host's file. Truncated and malformed lines are left out."""
    rows: dict[int, list[tuple[float, list[float], int]]] = {}
    for line in text.splitlines():
        try:
            time, gpu, *values, reasons = (cell.strip() for cell in line.split(","))
            if len(values) == len(COLUMNS):
                at = datetime.strptime(time, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
                rows.setdefault(int(gpu), []).append((at, [_number(value) for value in values], _bits(reasons)))
        except ValueError:
            continue  # the header, or half a line
    traces = []
    for index, samples in sorted(rows.items()):
        times, cells, bits = zip(*sorted(samples), strict=True)
        columns = dict(zip(COLUMNS, np.array(cells, dtype=np.float64).T, strict=True))
        traces.append(Trace(host, index, np.array(times), columns, bits))
    return traces


def _readings(traces: Sequence[Trace]) -> dict[str, Any]:
    """The fields of Readings, over the samples of all ``traces``."""
    columns = {name: np.concatenate([trace.columns[name] for trace in traces]) for name in COLUMNS}
    valid = {name: values[~np.isnan(values)] for name, values in columns.items()}
    bits = [bits for trace in traces for bits in trace.reasons]
    shares = {name: sum(bool(each & bit) for each in bits) / len(bits) for bit, name in REASONS.items()}
    fault = sum(bit for bit, name in REASONS.items() if name in THROTTLES)

    def reduced(name: str, reduce: Callable[[Floats], Any]) -> float | None:
        return float(reduce(valid[name])) if len(valid[name]) else None

    memory = reduced("memory_mib", np.max)
    return {
        "samples": len(bits),
        "sm_clock_mhz": reduced("sm_clock_mhz", np.median),
        "sm_clock_min_mhz": reduced("sm_clock_mhz", np.min),
        "memory_clock_mhz": reduced("memory_clock_mhz", np.median),
        "power_w": reduced("power_w", np.mean),
        "power_limit_w": reduced("power_limit_w", np.min),
        "temperature_c": reduced("temperature_c", np.max),
        "utilisation_percent": reduced("utilisation_percent", np.mean),
        "memory_gib": None if memory is None else memory / 1024,
        "reasons": {name: share for name, share in shares.items() if share},
        "throttled": sum(bool(each & fault) for each in bits) / len(bits),
    }


def _under_load(traces: Sequence[Trace], start: float, end: float) -> list[Trace]:
    """GPUs whose mean power from ``start`` to ``end`` is at least UNDER_LOAD of the largest."""
    power = [trace.within(start, end).columns["power_w"] for trace in traces]
    means = [float(np.nansum(watts)) / max(len(watts), 1) for watts in power]
    return [trace for trace, mean in zip(traces, means, strict=True) if mean >= UNDER_LOAD * max(means)]


def _load_end(traces: Sequence[Trace]) -> float | None:
    """The time of the last sample under load, over all GPUs."""
    largest = max((float(np.nanmax(t.columns["power_w"], initial=0)) for t in traces), default=0.0)
    ends = [t.time[t.columns["power_w"] >= UNDER_LOAD * largest] for t in traces] if largest else []
    return max((float(times[-1]) for times in ends if len(times)), default=None)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(text: str) -> float:
    """NaN for [N/A] and the like."""
    return float("nan") if text.startswith(("[", "N/A")) else float(text)


def _bits(text: str) -> int:
    return 0 if text.startswith(("[", "N/A")) else int(text, 16)
