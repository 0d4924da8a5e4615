"""A report as data: the one source of terminal, Markdown, CSV, JSON, JUnit and HTML,
and of the pages in docs/.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.judge.references import load_references
from benchrun.judge.verdict import RunResult
from benchrun.rundir.find import stamp_of
from benchrun.runspec.spec import TrainingSpec

from .curve import CurveView
from .frameworks import ValidRun, alike, left_out, side_by_side, valid_runs
from .published import Pair, pairs
from .readable import named_points, readable
from .runs import identified, ratio_line
from .scaling import ratios
from .table import Table


@dataclass(frozen=True)
class ReportModel:
    """Everything that a report shows."""

    points: Table
    """One row per point, its repeats together: every column, for programs."""
    readable: Table
    """Rows in few columns, for readers; a metric that no run has is left out."""
    frameworks: Table
    """Frameworks of one point side by side; no rows if no two ran the same point."""
    ratios: tuple[str, ...]
    """Sentences on FSDP over 3D parallelism."""
    curves: tuple[CurveView, ...]
    """Weak and strong scaling, measured beside predicted."""
    published: tuple[Pair, ...]
    """Each point beside the nearest published number."""
    results: tuple[RunResult, ...]
    left_out: str = ""
    """Sentence on the runs that count for no point, because its newest have other software."""

    def rows(self, by: str) -> Table:
        """The table for programs: of points, or of frameworks side by side."""
        if by == "framework":
            return self.frameworks
        return self.points


def report_model(runs: Sequence[RunResult], curves: Sequence[CurveView] = ()) -> ReportModel:
    """The report on ``runs``, those of one recipe, GPU and precision together. What is
    said of points is of runs with the same software.
    """
    every = sorted(runs, key=_order)
    results = alike(every)
    references = load_references()
    return ReportModel(
        points=identified(results),
        readable=readable(results),
        frameworks=side_by_side(valid_runs(results)),
        ratios=tuple(map(ratio_line, ratios(results, references))),
        curves=tuple(curves),
        published=tuple(pairs(_points(results), references)),
        results=tuple(every),
        left_out=left_out(every).strip(),
    )


def _order(run: RunResult) -> tuple[object, ...]:
    """Order of runs: by workload, then by its size, then by the time of the launch."""
    spec = run.spec
    model = getattr(spec, "model", None)
    gbs = getattr(spec, "gbs", 0)
    layers = 0
    if model:
        layers = -model.num_layers
    return spec.recipe, layers, spec.gpu, spec.precision, spec.num_gpus, gbs, stamp_of(run.run_id)


def _points(results: Sequence[RunResult]) -> list[tuple[str, list[ValidRun]]]:
    """The valid trainings of each point, with its name."""
    valid = []
    for each in results:
        if each.numbers and isinstance(each.spec, TrainingSpec):
            valid.append(each)
    return [(name, valid_runs(point)) for name, point in named_points(valid)]
