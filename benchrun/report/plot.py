"""Step time over steps as a picture; needs matplotlib (the ``plot`` extra)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchrun.errors import UserError
from benchrun.metrics.model import Summary
from benchrun.metrics.registry import METRICS, OURS
from benchrun.metrics.rows import Measured


def plot_steps(values: Measured, summary: Summary, path: Path) -> None:
    """Write the picture to ``path``, in the format that its name ends in. UserError where that cannot be done."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("matplotlib is not installed", hint="pip install 'benchrun[plot]'") from None
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.add_subplot()
    steps, left_out = values.step, values.impossible
    timed = not np.isnan(values.step_time_s).all()
    metric = METRICS["step_time_s" if timed else "tokens_per_s_per_gpu"]
    shown = values.step_time_s if timed else values.tokens_per_s_per_gpu
    axes.plot(steps[~left_out], shown[~left_out], ".-", linewidth=0.8, markersize=4, label="each row")
    if left_out.any():
        axes.plot(steps[left_out], shown[left_out], "x", color="red", label="impossible, left out")
    if summary.window is not None and summary.warmup_rows_dropped:
        axes.axvspan(steps[0], summary.window.first_step, color="0.9", label="warm-up, dropped")
    middle = metric.read(summary, OURS)
    if middle is not None:
        axes.axhline(middle, color="0.4", linestyle="--", label=f"median {middle:.4g}")
        # The axis leaves the warm-up out: a first step with compilation would flatten all others.
        inside = shown[(steps >= summary.window.first_step) & ~left_out] if summary.window else shown
        low, high = float(np.nanmin(inside)), float(np.nanmax(inside))
        room = max(high - low, 0.02 * middle)
        axes.set_ylim(max(low - room, 0), high + room)
    axes.set_xlabel("step")
    axes.set_ylabel("step time (s)" if timed else metric.unit)
    axes.set_title(f"{summary.file}  ({summary.framework})", fontsize=10)
    axes.legend(loc="upper right", fontsize=9)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise UserError(f"the plot cannot be written: {error}", where=str(path)) from error
