"""A metric over the steps of a log, for ``parse --plot``."""

from pathlib import Path

import numpy as np

from benchrun.errors import UserError
from benchrun.measure.metric import OURS, Metric
from benchrun.measure.model import MeanMedian, Summary
from benchrun.measure.registry import metric
from benchrun.measure.rows import CompletedRows
from benchrun.measure.statistics import Floats, Spread
from benchrun.show.plot import Plot, Series
from benchrun.show.table import Table

from .picture import save


def plot_steps(rows: CompletedRows, summary: Summary, path: Path, name: str | None = None) -> None:
    """Write the picture to ``path``, in the format that its name ends in; ``name`` is a
    metric of the registry.

    The step time if None, or tokens/s if the log gives no time. UserError if it cannot
    be drawn.
    """
    if name is None:
        name = "step_time_s"
        if np.isnan(rows.step_time_s).all():
            name = "tokens_per_s_per_gpu"
    save([metric_plot(metric(name), rows, summary)], path)


def metric_plot(entry: Metric, rows: CompletedRows, summary: Summary) -> Plot:
    """The values of a metric, its median, and the warm-up; UserError if no step has a
    value.
    """
    values = series(entry, rows, summary)
    known = ~np.isnan(values)
    if not known.any():
        raise UserError(f"no step has a value of {entry.name}", where=summary.file)
    window = summary.window
    middle = entry.read(summary, OURS)
    sound = known & ~rows.impossible
    counted = sound & (rows.step >= window.first_step) if window else sound
    limits = None
    if middle is not None and counted.any():
        # The axis leaves the warm-up out: a first step with compilation would flatten
        # all others.
        low = float(values[counted].min())
        high = float(values[counted].max())
        room = max(high - low, 0.02 * middle)
        limits = max(low - room, 0.0), high + room
    warm_up = None
    if window and summary.warmup_rows_dropped:
        warm_up = float(rows.step[0]), window.first_step - 0.5
    notes = ["Grey: warm-up, dropped."] if warm_up else []
    if middle is not None:
        notes += [f"Dashed: median {middle:.4g}."]
    drawn = [_points("each row", rows, values, sound)]
    left_out = known & rows.impossible
    if left_out.any():
        drawn.append(_points("impossible, left out", rows, values, left_out))
    return Plot(
        "line",
        f"{summary.file} ({summary.framework})",
        tuple(each for each in drawn if each.x),
        Table((), []),
        x_title="step",
        y_title="step time (s)" if entry.name == "step_time_s" else entry.unit,
        level=middle,
        shade=warm_up,
        limits=limits,
        note=" ".join(notes),
    )


def _points(name: str, rows: CompletedRows, values: Floats, chosen: np.ndarray) -> Series:
    """The chosen rows as dots."""
    return Series(
        name, tuple(values[chosen].tolist()), tuple(rows.step[chosen].tolist()), style="dots"
    )


def series(entry: Metric, rows: CompletedRows, summary: Summary) -> Floats:
    """The value of ``entry`` in each row, NaN if a row has none: the summary is read
    with the times of one row.
    """
    each = (
        _of_row(summary, *pair)
        for pair in zip(rows.step_time_s, rows.tokens_per_s_per_gpu, strict=True)
    )
    return np.array([entry.read(one, OURS) for one in each], dtype=np.float64)


def _of_row(summary: Summary, time_s: float, rate: float) -> Summary:
    """``summary`` as if every step had this time and this rate, from which TFLOPS and
    MFU follow.
    """
    step = dict.fromkeys(Spread.model_fields, time_s) | {"stdev": 0.0}
    share = rate / (summary.tokens_per_s_per_gpu.median or np.nan)
    tflops, *mfu = (
        each and each.model_copy(update={"full": share * each.full, "causal": share * each.causal})
        for each in (summary.tflops_per_gpu, *summary.mfu)
    )
    update = {
        "step_time_s": None if np.isnan(time_s) else Spread(**step),
        "tokens_per_s_per_gpu": MeanMedian(mean=rate, median=rate),
        "tflops_per_gpu": tflops,
        "mfu": tuple(mfu),
    }
    return summary.model_copy(update=update)
