"""A study as a picture: speed and memory of each point; needs matplotlib (the ``plot`` extra)."""

from pathlib import Path

from benchrun.errors import UserError
from benchrun.report.pareto import loads, plot_pareto
from benchrun.report.picture import picture, save
from benchrun.report.study import point_text
from benchrun.study.result import PointResult, StudyResult


def plot_study(study: StudyResult, path: Path) -> None:
    """Write bars of tokens/s/GPU and of the peak memory to ``path``, in the format that its name ends in.

    Of loads of a server throughput against the speed for a user.

    UserError where no point was measured or the file cannot be written.
    """
    if loads(study):
        plot_pareto(study, path)
        return
    points = [point for point in study.points if point.metrics["tokens_per_s_per_gpu"] is not None]
    if not points:
        raise UserError(f"no point of {study.study} was measured", hint=f"benchrun study {study.study}")
    figure = picture(10, 1.5 + 0.4 * len(points))
    rows, names = range(len(points)), [point_text(study, point) for point in points]
    speed, memory = figure.subplots(1, 2, sharey=True)
    for axes, metric, title in (
        (speed, "tokens_per_s_per_gpu", "tokens/s/GPU"),
        (memory, "peak_memory_gib", "peak memory in GiB"),
    ):
        values = [point.metrics[metric] or 0.0 for point in points]
        axes.barh(rows, values, color="0.6")
        texts = [_text(point, metric) for point in points]
        axes.bar_label(axes.containers[0], labels=texts, padding=3, fontsize=8)
        axes.set_xlim(0, 1.35 * max(values, default=1) or 1)
        axes.set_xlabel(title)
    speed.set_yticks(rows, names, fontsize=9)
    speed.invert_yaxis()
    figure.suptitle(f"{study.study}: {study.description}", fontsize=10)
    save(figure, path)


def _text(point: PointResult, metric: str) -> str:
    """The value, and beside a speed its ratio to the baseline."""
    value, ratio = point.metrics[metric], point.ratio
    if value is None:
        return ""
    beside = f"  x {ratio.value:.2f}" if ratio and metric == "tokens_per_s_per_gpu" else ""
    return f"{value:,.3g}{beside}" if value < 1000 else f"{value:,.0f}{beside}"
