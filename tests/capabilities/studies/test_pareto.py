"""A sweep of the load has a Pareto front."""

from pathlib import Path
from typing import Any

import pytest

from benchrun.capabilities.html.picture import inline_svg
from benchrun.capabilities.studies.pareto import loads, pareto_plots
from benchrun.capabilities.studies.plot import plot_study
from benchrun.capabilities.studies.result import PointResult, StudyResult
from benchrun.capabilities.studies.schedule import PointState


def study(*rates: tuple[float, float]) -> StudyResult:
    none = dict.fromkeys(("step_time_s", "tokens_per_s_per_gpu", "mfu_causal_pct", "peak_memory_gib"))
    points: list[Any] = [
        PointResult(
            key=str(number),
            settings={"concurrency": number},
            baseline=1,
            state=PointState.COMPLETED,
            reason=None,
            runs=(),
            measured=1,
            hours=None,
            metrics={**none, "output_tokens_per_s_per_user": user, "output_tokens_per_s_per_gpu": gpu},
            ratio=None,
        )
        for number, (user, gpu) in enumerate(rates, 1)
    ]
    return StudyResult(
        study="loads",
        description="a sweep",
        directory="",
        columns=("concurrency",),
        repeats=1,
        points=tuple(points),
        gpu_hours_limit=1,
        gpu_hours_steps=None,
        runs=len(points),
        runs_with_known_steps=0,
        price_per_gpu_hour=None,
    )


def test_a_load_that_is_worse_in_both_is_not_on_the_front() -> None:
    found = loads(study((100, 10), (50, 40), (40, 30), (20, 80)))
    assert [(load.name, load.front) for load in found] == [
        ("concurrency 4", True),
        ("concurrency 3", False),
        ("concurrency 2", True),
        ("concurrency 1", True),
    ]


def test_the_plot_has_every_load(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sweep = study((100, 10), (50, 40), (20, 80))
    (plot,) = pareto_plots(sweep)
    assert len(plot.marks) == len(plot.table.rows) == 3
    assert inline_svg(plot, "a").count("<") > 10
    plot_study(sweep, tmp_path / "pareto.svg")
    text = (tmp_path / "pareto.svg").read_text()
    assert "<svg" in text
