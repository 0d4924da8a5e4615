"""The series of a run that a browser draws: step times, and the state of its GPUs."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchrun.judge.verdict import RunResult
from benchrun.measure.samples import read
from benchrun.measure.setting import setting_of
from benchrun.show.plot import thinned
from benchrun.usecases.measurement import rows_of

POINTS = 50_000
"""Points of all step times of a page together, about."""
MANY = 80
"""Runs up to which the state of the GPUs is in the page."""
CUT = 1.5
"""Steps over this many times the median are beyond the axis, so that they do not flatten
the others.
"""
DIGITS = 20_000
"""Units of the largest value of a series."""
STATE = {"sm_clock_mhz": "clock (MHz)", "power_w": "power (W)", "temperature_c": "temperature (C)"}
"""Columns of the telemetry that have a chart."""
GPUS = 8
"""The most GPUs in one chart."""
Chart = dict[str, Any]
"""Names of the axes, series, level, first counted step, ends of the y axis."""


def data_of(run: RunResult, runs: int) -> dict[str, Any]:
    """The charts of a run, one of ``runs``, and its step time with its interval."""
    numbers = run.numbers
    found: dict[str, Any] = {"id": run.run_id, "charts": [*_charts(run, runs)]}
    if numbers and numbers.step_time_s and numbers.step_time_interval_s:
        interval = numbers.step_time_interval_s
        found["step"] = [numbers.step_time_s.median, interval.low, interval.high]
    return found


def _charts(run: RunResult, runs: int) -> Iterator[Chart]:
    measurement = run.measurement
    if measurement is None or run.metrics is None:
        return
    spread, window = run.metrics.step_time_s, run.metrics.window
    rows = rows_of(measurement.log, setting_of(run.spec))
    valid = ~np.isnan(rows.step_time_s) & ~rows.impossible
    if spread and window and valid.sum() > 1:
        steps, times = rows.step[valid], rows.step_time_s[valid]
        counted = times[(steps >= window.first_step) & (times <= CUT * spread.median)]
        most = max(20, POINTS // 2 // runs)
        x, y = thinned(steps.tolist(), times.tolist(), most)
        yield {
            "x": "step",
            "y": "step time (s)",
            "series": [["step time", _coded(x), _coded(y)]],
            "level": spread.median,
            "from": window.first_step,
            "ends": [float(counted.min()), float(counted.max())],
        }
    if runs <= MANY:
        yield from _states(measurement.run.telemetry())


def _states(files: dict[str, str]) -> Iterator[Chart]:
    """Clock, power and temperature of each GPU over the time since the first sample."""
    gpus = []
    for host, text in files.items():
        for index, samples in read(text).items():
            if len(samples) > 2:
                gpus.append((f"{host} GPU {index}", samples))
    if not gpus:
        return
    start = min(float(samples["time"][0]) for _, samples in gpus)
    for column, title in STATE.items():
        series = []
        for name, samples in gpus[:GPUS]:
            valid = ~np.isnan(samples[column])
            if valid.any():
                times = (samples["time"][valid] - start).tolist()
                x, y = thinned(times, samples[column][valid].tolist(), most=20)
                series.append([name, _coded(x), _coded(y)])
        if series:
            yield {"x": "time (s)", "y": title, "series": series}


def _coded(values: Sequence[float]) -> list[float]:
    """Numbers as a unit, and the whole units from each to the next."""
    unit = 1.0
    if any(value != int(value) for value in values):
        unit = float(f"{max(map(abs, values)) / DIGITS:.1g}")
    whole = [round(value / unit) for value in values]
    return [unit, *np.diff(whole, prepend=0).tolist()]
