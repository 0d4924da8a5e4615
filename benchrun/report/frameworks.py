"""Frameworks side by side: runs of one point, launched with different frameworks on the same GPUs."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from benchrun.comparison.verdict import RunResult
from benchrun.metrics.model import Metrics
from benchrun.report.repeats import median_of
from benchrun.report.runs import proxy, short_layout
from benchrun.report.table import Table
from benchrun.spec.runspec import TrainingSpec

TITLES = (
    *("recipe", "gpu", "precision", "num_gpus", "seq_length", "gbs", "layout", "framework", "runs", "step_time_s"),
    *("speed", "tokens_per_s_per_gpu", "tflops_per_gpu_causal", "memory_gib", "tokens_per_joule", "loss"),
)
"""``speed`` is relative to the fastest framework of the point; ``memory_gib`` is the most that a GPU had in use."""
POINT = TITLES.index("framework")
"""Columns before this one name the point."""


class Measured(NamedTuple):
    """One valid run."""

    spec: TrainingSpec
    metrics: Metrics


def rows_of(results: Sequence[RunResult]) -> list[Measured]:
    """The valid trainings among ``results``."""
    valid = ((result.spec, result.numbers) for result in results)
    return [Measured(spec, metrics) for spec, metrics in valid if metrics and isinstance(spec, TrainingSpec)]


def side_by_side(runs: Sequence[Measured]) -> Table:
    """One row per framework of every point that at least two frameworks ran, the fastest first; medians of repeats."""
    points: dict[tuple[Any, ...], dict[str, list[Metrics]]] = {}
    for spec, metrics in runs:
        if metrics.step_time_s:
            points.setdefault(_point(spec), {}).setdefault(spec.framework, []).append(metrics)
    rows: list[list[Any]] = []
    for point, by_framework in points.items():
        times = {framework: median_of("step_time_s", each) or 0.0 for framework, each in by_framework.items()}
        fastest = min(times.values())
        if len(times) > 1:
            ordered = sorted(times.items(), key=lambda item: item[1])
            rows += [[*point, name, *_row(by_framework[name], time, fastest)] for name, time in ordered]
    return Table(TITLES, rows)


def losses(runs: Sequence[tuple[TrainingSpec, Sequence[float]]]) -> Table:
    """The losses of each framework at some steps, for points whose frameworks read the same files of tokens.

    ``difference`` is the largest over the steps, in nats, from the median of the point's frameworks.
    """
    points: dict[tuple[Any, ...], dict[str, Sequence[float]]] = {}
    for spec, each in runs:
        if spec.reads_files and each:
            points.setdefault((*_point(spec), spec.data_set, spec.training.steps), {})[spec.framework] = each
    rows: list[list[Any]] = []
    for point, by_framework in points.items():
        if len(by_framework) > 1:
            middle = [median(each) for each in zip(*by_framework.values(), strict=False)]
            rows += [[*point[: POINT - 1], name, *_loss_cells(each, middle)] for name, each in by_framework.items()]
    return Table((*TITLES[: POINT - 1], "framework", "first", "a third", "two thirds", "last", "difference"), rows)


def _loss_cells(losses: Sequence[float], middle: Sequence[float]) -> list[str]:
    steps = len(middle)
    shown = (losses[step] for step in (0, steps // 3, 2 * steps // 3, steps - 1))
    return [f"{value:.4f}" for value in (*shown, max(abs(a - b) for a, b in zip(losses, middle, strict=False)))]


def _point(spec: TrainingSpec) -> tuple[Any, ...]:
    return (proxy(spec), spec.gpu, spec.precision, spec.num_gpus, spec.seq_length, spec.gbs, short_layout(spec))


def _row(repeats: Sequence[Metrics], time: float, fastest: float) -> list[Any]:
    memory = [run.telemetry.memory_gib for run in repeats if run.telemetry and run.telemetry.memory_gib]
    first, last = repeats[0].first_loss, repeats[0].final_loss
    return [
        *(len(repeats), time, fastest / time, median_of("tokens_per_s_per_gpu", repeats)),
        *(
            median_of("tflops_per_gpu_causal", repeats),
            max(memory, default=None),
            median_of("tokens_per_joule", repeats),
        ),
        None if first is None or last is None else f"{first:.4g} -> {last:.4g}",
    ]
