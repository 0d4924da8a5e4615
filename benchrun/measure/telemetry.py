"""The GPUs during the measured steps: telemetry/<host>.csv -> clocks, power,
temperature, energy.

nvidia-smi samples each GPU once a second. Energy is that of the GPUs' boards alone,
without hosts, network and cooling.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from benchrun.model import Frozen

from .samples import REASONS, SAMPLE, Samples, read
from .statistics import Floats

THROTTLES = ("hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
"""Reasons that are faults of cooling or supply. ``power_cap`` is not: a GPU at full
load runs at its power limit.
"""
UNDER_LOAD = 0.5
"""A GPU that draws at least this share of the largest power is under load."""
EDGE_S = 2.0
"""Largest distance of the first and last sample from the ends of the window; the power
is constant beyond them.
"""
GAP_S = 10.0
"""Seconds between two samples above which the energy is unknown."""


def percent(share: float) -> str:
    """Whole percent, ``under 1 %`` in place of 0."""
    if share > 0.005:
        return f"{100 * share:.0f} %"
    return "under 1 %"


class Over(NamedTuple):
    """How a column of the samples becomes one number."""

    column: str
    reduced: Callable[[Floats], Any]
    unit: float = 1.0
    """Size of the column's unit in the unit of the number."""


class Readings(Frozen):
    """The samples of the window, with power and memory of one GPU; None if the GPU
    reports no value.
    """

    samples: int
    sm_clock_mhz: Annotated[float | None, Over("sm_clock_mhz", np.median)]
    sm_clock_min_mhz: Annotated[float | None, Over("sm_clock_mhz", np.min)]
    memory_clock_mhz: Annotated[float | None, Over("memory_clock_mhz", np.median)]
    power_w: Annotated[float | None, Over("power_w", np.mean)]
    power_limit_w: Annotated[float | None, Over("power_limit_w", np.min)]
    temperature_c: Annotated[float | None, Over("temperature_c", np.max)]
    utilisation_percent: Annotated[float | None, Over("utilisation_percent", np.mean)]
    memory_gib: Annotated[float | None, Over("memory_mib", np.max, 1 / 1024)]
    reasons: dict[str, float]
    """Reason why a clock was below its maximum: share of the samples, 0 to 1."""
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
    """Number of GPUs that were sampled throughout."""
    window: tuple[str, str]
    """UTC."""
    ends: Literal["log", "load"]
    """Evidence for the window's end: the log, or the last sample under load."""
    energy_j: float | None
    """Energy of all GPUs in the window, in J; None unless every GPU of the run was
    sampled throughout.
    """
    tokens_per_joule: float | None

    @property
    def fault(self) -> str | None:
        """The faults that lowered clocks, in words."""
        faults = []
        for name in THROTTLES:
            if self.reasons.get(name):
                faults.append(f"{name} in {percent(self.reasons[name])}")
        if faults:
            return f"throttled: {', '.join(faults)} of the samples"
        return None


class Sampled(Frozen):
    """telemetry.json."""

    schema_version: Literal[1] = 1
    over_all: Telemetry
    gpus: tuple[GpuReadings, ...]


def sampled(
    files: Mapping[str, str],
    *,
    num_gpus: int,
    seconds: float,
    tokens: float,
    until: float | None = None,
) -> Sampled | None:
    """The window's telemetry from the text of each host's file; None without samples of
    the run's own GPUs in it.

    The window is the ``seconds`` before ``until`` (when the last step ended by the log,
    in seconds since 1970), or before the last sample under load; ``tokens`` were
    trained in it. Where more GPUs were sampled than the run had, those under load in it
    are the run's; None if these are too many as well.
    """
    gpus = {}
    for host, text in sorted(files.items()):
        for index, samples in read(text).items():
            gpus[(host, index)] = samples
    end = until if until is not None else _load_end(gpus.values())
    if end is None or seconds <= 0:
        return None
    start = end - seconds
    inside = {}
    for gpu, each in gpus.items():
        inside[gpu] = each[(each["time"] >= start) & (each["time"] <= end)]
    if len(inside) > num_gpus:
        power = {}
        for gpu, each in inside.items():
            power[gpu] = float(np.nansum(each["power_w"])) / max(len(each), 1)
        inside = {
            gpu: each
            for gpu, each in inside.items()
            if power[gpu] >= UNDER_LOAD * max(power.values())
        }
    if len(inside) > num_gpus or not any(map(len, inside.values())):
        return None
    energies = {gpu: _energy_j(gpus[gpu], start, end) for gpu in inside}
    measured = [energy for energy in energies.values() if energy is not None]
    total = sum(measured) if len(measured) == num_gpus else None
    over_all = Telemetry(
        gpus=len(measured),
        window=(_utc(start), _utc(end)),
        ends="load" if until is None else "log",
        energy_j=total,
        tokens_per_joule=tokens / total if total else None,
        **_readings(list(inside.values())),
    )
    each_gpu = []
    for (host, index), samples in inside.items():
        if len(samples):
            each_gpu.append(
                GpuReadings(
                    host=host, gpu=index, energy_j=energies[host, index], **_readings([samples])
                )
            )
    return Sampled(over_all=over_all, gpus=tuple(each_gpu))


def _energy_j(samples: Samples, start: float, end: float) -> float | None:
    """The integral of a GPU's power, by trapezoids; None if samples are missing between
    ``start`` and ``end``.
    """
    valid = samples[~np.isnan(samples["power_w"])]
    time = valid["time"]
    if not len(time) or time[0] > start + EDGE_S or time[-1] < end - EDGE_S:
        return None
    at = np.concatenate(([start], time[(time > start) & (time < end)], [end]))
    if np.diff(at).max() > GAP_S:
        return None
    values = np.interp(at, time, valid["power_w"])
    return float(np.sum(np.diff(at) * (values[1:] + values[:-1]) / 2))


def _readings(gpus: Sequence[Samples]) -> dict[str, Any]:
    """The fields of Readings, over the samples of all ``gpus``."""
    samples = np.concatenate(gpus)
    readings: dict[str, Any] = {}
    for name, field in Readings.model_fields.items():
        for over in field.metadata:
            values = samples[over.column][~np.isnan(samples[over.column])]
            readings[name] = float(over.reduced(values)) * over.unit if len(values) else None
    bits = samples["reasons"]
    shares = {name: float(np.mean(bits >> bit & 1)) for bit, name in enumerate(REASONS)}
    fault = sum(1 << REASONS.index(name) for name in THROTTLES)
    return {
        **readings,
        "samples": len(samples),
        "reasons": {name: share for name, share in shares.items() if share},
        "throttled": float(np.mean(bits & fault != 0)),
    }


def _load_end(gpus: Iterable[Samples]) -> float | None:
    """The time of the last sample under load, over all GPUs."""
    samples = np.concatenate([np.empty(0, SAMPLE), *gpus])
    largest = np.nanmax(samples["power_w"], initial=0)
    if largest:
        return float(samples["time"][samples["power_w"] >= UNDER_LOAD * largest].max())
    return None


def _utc(seconds: float) -> str:
    return (
        datetime.fromtimestamp(seconds, timezone.utc)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
