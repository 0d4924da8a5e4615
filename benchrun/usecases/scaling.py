"""Curves over numbers of GPUs: of a point, predicted; of runs, measured beside predicted."""

from collections.abc import Sequence

from benchrun.capabilities.predict.curve_view import CurveView
from benchrun.capabilities.predict.scaling import CurvePoint, Scaling
from benchrun.capabilities.predict.usecase import Predicted, expected_step
from benchrun.judge.measured import by_point
from benchrun.judge.verdict import RunResult
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.repeats import median_of
from benchrun.show.runs import proxy
from benchrun.show.scaling import Curve, curves_of


def predicted_scaling(curve: Sequence[Predicted], scaling: Scaling) -> CurveView:
    """A predicted curve with its efficiency, and where it breaks."""
    return CurveView(_title(curve[0].spec), scaling, predicted=tuple(point.prediction for point in curve))


def measured_scaling(results: Sequence[RunResult]) -> list[CurveView]:
    """Every weak and strong curve among the valid runs; the step time of a point is the median of its repeats."""
    valid = [run for run in results if isinstance(run.spec, TrainingSpec) and run.numbers]
    points: list[tuple[TrainingSpec, float]] = []
    steps: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    for repeats in by_point(valid):
        spec = repeats[0].spec
        step_s = median_of("step_time_s", [run.numbers for run in repeats if run.numbers])
        if isinstance(spec, TrainingSpec) and step_s:
            points.append((spec, spec.tokens_per_step / (step_s * spec.num_gpus)))
            steps[spec.repeat_key()] = step_s
            parts[spec.repeat_key()] = _profiled(repeats[0])
    return [_view(curve, steps, parts) for curve in curves_of(points)]


def _view(curve: Curve, steps: dict[str, float], parts: dict[str, dict[str, float]]) -> CurveView:
    """A measured curve with the predictions for its points, if each has one; likewise the parts of its steps.

    ``steps`` and ``parts``: seconds by point.
    """
    profiled = all(parts[spec.repeat_key()] for spec in curve.specs)
    measured = tuple(
        CurvePoint(
            spec.num_gpus,
            spec.gbs,
            steps[spec.repeat_key()],
            parts[spec.repeat_key()] if profiled else {},
        )
        for spec in curve.specs
    )
    predictions = [one for spec in curve.specs if (one := expected_step(spec))]
    kind: Scaling = "weak" if curve.kind == "weak" else "strong"
    predicted = tuple(predictions) if len(predictions) == len(measured) else ()
    return CurveView(_title(curve.spec), kind, measured, predicted)


def _profiled(run: RunResult) -> dict[str, float]:
    """Parts of the run's profiled step, in s; empty if it has none."""
    return run.numbers.breakdown.parts if run.numbers and run.numbers.breakdown else {}


def _title(spec: TrainingSpec) -> str:
    return f"{proxy(spec)} {spec.precision} {spec.gpu} {spec.framework}"
