"""Curves over numbers of GPUs: of runs, measured beside predicted."""

from collections.abc import Iterator, Sequence

from benchrun.judge.measured import by_point
from benchrun.judge.verdict import RunResult
from benchrun.measure.scaling import CurvePoint, Scaling
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.curve import CurveView
from benchrun.show.repeats import median_of
from benchrun.show.runs import proxy
from benchrun.show.scaling import Curve, curves_of

from .expectations import expected_step


def measured_scaling(results: Sequence[RunResult]) -> list[CurveView]:
    """Every weak and strong curve among the valid runs; the step time of a point is the
    median of its repeats.
    """
    valid = []
    for run in results:
        if isinstance(run.spec, TrainingSpec) and run.numbers:
            valid.append(run)
    points = []
    steps = {}
    parts = {}
    for repeats in by_point(valid):
        spec = repeats[0].spec
        step_s = median_of("step_time_s", [run.numbers for run in repeats if run.numbers])
        if isinstance(spec, TrainingSpec) and step_s:
            points.append((spec, spec.tokens_per_step / (step_s * spec.num_gpus)))
            steps[spec.repeat_key()] = step_s
            parts[spec.repeat_key()] = _profiled(repeats[0])
    return [_view(curve, steps, parts) for curve in curves_of(points)]


def _view(curve: Curve, steps: dict[str, float], parts: dict[str, dict[str, float]]) -> CurveView:
    """A measured curve with the predictions for its points, if each has one; likewise
    the parts of its steps.

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
    predicted = []
    for spec in curve.specs:
        one = expected_step(spec)
        if one:
            parts_s = getattr(one, "parts", {})  # an expectation need not know them
            predicted.append(
                CurvePoint(spec.num_gpus, spec.gbs, one.median, parts_s, one.low, one.high)
            )
    known = tuple(predicted) if len(predicted) == len(measured) else ()
    kind: Scaling = "weak" if curve.kind == "weak" else "strong"
    ahead = tuple(_ahead(curve, measured[-1], known[-1].step_s)) if known else ()
    return CurveView(curve_title(curve.spec), kind, curve.spec.seq_length, measured, known, ahead)


def _ahead(curve: Curve, last: CurvePoint, predicted_s: float) -> Iterator[CurvePoint]:
    """The next two doublings of the GPUs after the largest measured size, whose step is
    ``predicted_s`` by prediction alone.
    """
    largest = curve.specs[-1]
    share = last.step_s / predicted_s
    for factor in (2, 4):
        gbs = largest.gbs * factor if curve.kind == "weak" else largest.gbs
        spec = largest.resized(num_gpus=largest.num_gpus * factor, gbs=gbs)
        one = None
        if gbs % (spec.mbs * spec.dp) == 0:
            one = expected_step(spec)
        if one:
            low_s, high_s = share * one.low, share * one.high
            yield CurvePoint(spec.num_gpus, gbs, share * one.median, {}, low_s, high_s)


def _profiled(run: RunResult) -> dict[str, float]:
    """Parts of the run's profiled step, in s; empty if it has none."""
    if run.numbers and run.numbers.breakdown:
        return run.numbers.breakdown.parts
    return {}


def curve_title(spec: TrainingSpec) -> str:
    """The workload, precision, GPU and framework of a curve."""
    return f"{proxy(spec)} {spec.precision} {spec.gpu} {spec.framework}"
