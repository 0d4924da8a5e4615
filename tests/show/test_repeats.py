"""The repeats of a point have one step time on every part of a report."""

from dataclasses import replace

from benchrun.show.model import ReportModel
from benchrun.show.runs import points_by_repeats
from benchrun.usecases.scaling import measured_scaling


def test_points_and_curves_have_the_same_step_time(scaling_study: ReportModel) -> None:
    slower = []
    for each in scaling_study.results:
        assert each.metrics is not None and each.metrics.step_time_s is not None
        rate, step = each.metrics.tokens_per_s_per_gpu, each.metrics.step_time_s
        changed = {
            "step_time_s": step.model_copy(update={"median": 3 * step.median}),
            "tokens_per_s_per_gpu": rate.model_copy(update={"median": (rate.median or 0) / 3}),
        }
        slower.append(replace(each, run_id=f"{each.run_id}-2", metrics=each.metrics.model_copy(update=changed)))
    rows = points_by_repeats([*scaling_study.results, *slower]).records()
    times = {round(row["step_time_s"], 4) for row in rows if row["step_time_s"]}
    points = [point for view in measured_scaling([*scaling_study.results, *slower]) for point in view.measured]
    assert points
    assert {round(point.step_s, 4) for point in points} <= times
