"""A metric over the steps as a picture; needs matplotlib (the ``plot`` extra)."""

from pathlib import Path

import numpy as np

from benchrun.errors import UserError
from benchrun.metrics.model import MeanMedian, Summary
from benchrun.metrics.registry import OURS, Metric, metric
from benchrun.metrics.rows import CompletedRows
from benchrun.metrics.statistics import Floats, Spread
from benchrun.report.picture import picture, save


def plot_steps(rows: CompletedRows, summary: Summary, path: Path, name: str | None = None) -> None:
    """Write the picture to ``path``, in the format that its name ends in; ``name`` is a metric of the registry.

    The step time where None, or tokens/s where the log gives no time. UserError where it cannot be drawn.
    """
    entry = metric(name or ("tokens_per_s_per_gpu" if np.isnan(rows.step_time_s).all() else "step_time_s"))
    steps, left_out, values = rows.step, rows.impossible, series(entry, rows, summary)
    if np.isnan(values).all():
        raise UserError(f"no step has a value of {entry.name}", where=summary.file)
    axes = (figure := picture(10, 5)).add_subplot()
    axes.plot(steps[~left_out], values[~left_out], ".-", linewidth=0.8, markersize=4, label="each row")
    if left_out.any():
        axes.plot(steps[left_out], values[left_out], "x", color="red", label="impossible, left out")
    if summary.window is not None and summary.warmup_rows_dropped:
        axes.axvspan(steps[0], summary.window.first_step, color="0.9", label="warm-up, dropped")
    middle = entry.read(summary, OURS)
    if middle is not None:
        axes.axhline(middle, color="0.4", linestyle="--", label=f"median {middle:.4g}")
        # The axis leaves the warm-up out: a first step with compilation would flatten all others.
        inside = values[(steps >= summary.window.first_step) & ~left_out] if summary.window else values
        low, high = float(np.nanmin(inside)), float(np.nanmax(inside))
        room = max(high - low, 0.02 * middle)
        axes.set_ylim(max(low - room, 0), high + room)
    axes.set_xlabel("step")
    axes.set_ylabel("step time (s)" if entry.name == "step_time_s" else entry.unit)
    axes.set_title(f"{summary.file}  ({summary.framework})", fontsize=10)
    axes.legend(loc="upper right", fontsize=9)
    save(figure, path)


def series(entry: Metric, rows: CompletedRows, summary: Summary) -> Floats:
    """The value of ``entry`` in each row, NaN where a row has none: the summary is read with the times of one row."""
    each = (_of_row(summary, *pair) for pair in zip(rows.step_time_s, rows.tokens_per_s_per_gpu, strict=True))
    return np.array([entry.read(one, OURS) for one in each], dtype=np.float64)


def _of_row(summary: Summary, time_s: float, rate: float) -> Summary:
    """``summary`` as if every step had this time and this rate, from which TFLOPS and MFU follow."""
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
