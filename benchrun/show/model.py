"""A report as data: the one source of terminal, Markdown, CSV, JSON, JUnit and HTML, and of the pages in docs/."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchrun.capabilities.html.section import run_section
from benchrun.capabilities.html.sections import point_labels, sections
from benchrun.judge.measured import by_point
from benchrun.judge.references import load_references
from benchrun.judge.verdict import RunResult
from benchrun.rundir.folder import stamp_of
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.curve import CurveView
from benchrun.show.data import RunData, RunSection, Section
from benchrun.show.frameworks import ValidRun, side_by_side, valid_runs
from benchrun.show.plot import Plot
from benchrun.show.published import Pair, pairs
from benchrun.show.readable import readable
from benchrun.show.runs import identified, ratio_line
from benchrun.show.scaling import ratios
from benchrun.show.table import Table


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
    sections: tuple[Section, ...]
    """Sections on several runs together."""
    runs: tuple[RunSection, ...]
    results: tuple[RunResult, ...]

    def headed(self, section: Section) -> "ReportModel":
        """Return the report with one more section before the others."""
        return replace(self, sections=(section, *self.sections))

    def without(self, identity: str) -> "ReportModel":
        """Return the report without that section."""
        return replace(self, sections=tuple(each for each in self.sections if each.identity != identity))

    def rows(self, by: str) -> Table:
        """The table for programs: of points, or of frameworks side by side."""
        return self.frameworks if by == "framework" else self.points


MANY = 80
"""Runs up to which each is drawn with all of its plots, so that the page stays below 1.5 MB."""


def report_model(
    runs: Sequence[RunData], curves: Sequence[CurveView] = (), history: Sequence[Plot] = ()
) -> ReportModel:
    """The report on ``runs``, those of one recipe, GPU and precision together; ``history`` is plots over time."""
    ordered = sorted(runs, key=_order)
    results = [run.result for run in ordered]
    frameworks, references = side_by_side(valid_runs(results)), load_references()
    beside = pairs(_points(results), references)
    return ReportModel(
        points=identified(results),
        readable=readable(results),
        frameworks=frameworks,
        ratios=tuple(map(ratio_line, ratios(results, references))),
        curves=tuple(curves),
        published=tuple(beside),
        sections=tuple(sections(ordered, frameworks, beside, curves, history)),
        runs=tuple(run_section(run, brief=len(ordered) > MANY) for run in ordered),
        results=tuple(results),
    )


def _order(run: RunData) -> tuple[object, ...]:
    """Order of runs: by workload, then by its size, then by the time of the launch."""
    spec = run.result.spec
    model, gbs = getattr(spec, "model", None), getattr(spec, "gbs", 0)
    layers = -model.num_layers if model else 0
    return spec.recipe, layers, spec.gpu, spec.precision, spec.num_gpus, gbs, stamp_of(run.result.run_id)


def _points(results: Sequence[RunResult]) -> list[tuple[str, list[ValidRun]]]:
    """The valid trainings of each point, with its name."""
    valid = [each for each in results if each.numbers and isinstance(each.spec, TrainingSpec)]
    points = by_point(valid)
    return [(name, valid_runs(point)) for name, point in zip(point_labels(points), points, strict=True)]
