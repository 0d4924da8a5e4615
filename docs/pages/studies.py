"""docs/studies.md: the shipped studies, as far as kept runs cover their points."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchrun.capabilities.studies.plot import study_plots
from benchrun.capabilities.studies.resolved import ResolvedStudy
from benchrun.capabilities.studies.result import PointResult, StudyResult, result
from benchrun.capabilities.studies.schedule import Attempt, PointState
from benchrun.capabilities.studies.usecase import plan_study
from benchrun.capabilities.studies.view import NAMES, factors, remarks, sentences, setting
from benchrun.jobs.endings import Ending
from benchrun.judge.measured import MeasuredRun
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import Metrics
from benchrun.recipes.select import Request
from benchrun.runspec.profile import Profile
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.table import Table, markdown

from .pictures import grid

TEXT = Path(__file__).with_suffix(".md.in")
"""The page: ``$NAME`` stands for what was measured of the study NAME."""
GPUS = ("H100", "H200")
NOTHING = "Not measured yet.\n"
PARTS = {
    "products": "matmul_s",
    "attention": "attention_s",
    "other kernels": "other_s",
    "communication alone": "communication_s",
    "no kernel": "idle_s",
}
"""What a profiled step is divided into -> the field of its breakdown."""


def page(runs: Sequence[MeasuredRun]) -> str:
    """The whole page, in Markdown."""
    lines = TEXT.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(
        _study(line.strip()[1:], runs) if line.startswith("$") else line for line in lines
    )


def images(runs: Sequence[MeasuredRun]) -> dict[str, str]:
    """File name in docs/images -> the plots of a study: speed and peak memory of each point."""
    names = [
        line.strip()[1:]
        for line in TEXT.read_text(encoding="utf-8").splitlines()
        if line.startswith("$")
    ]
    measured = [(study, gpu) for name in names for gpu, study, _ in _measured(name, runs)]
    return {
        _image(study.study, gpu): grid(
            f"{study.description}: {gpu}",
            [each for each in study_plots(study) if each.level is None],
        )
        for study, gpu in measured
    }


def _image(name: str, gpu: str) -> str:
    return f"study-{name}-{gpu.lower()}.svg"


def _study(name: str, runs: Sequence[MeasuredRun]) -> str:
    return "\n".join(_on_gpu(*each) for each in _measured(name, runs)) or NOTHING


def _measured(
    name: str, runs: Sequence[MeasuredRun]
) -> Iterator[tuple[str, StudyResult, list[Metrics]]]:
    """The study on each GPU on which every point was measured, and the numbers of a run of each point."""
    for gpu in GPUS:
        study, by_point = kept_study(name, runs, gpu)
        if study.complete:
            # Of repeats one with the parts of its step.
            ranked = (
                sorted(by_point[point.key], key=_has_breakdown)
                for point in study.points
                if by_point[point.key]
            )
            yield gpu, study, [run.metrics for *_, run in ranked if run.metrics]


def _has_breakdown(run: RunResult) -> bool:
    return run.metrics is not None and run.metrics.breakdown is not None


def _on_gpu(gpu: str, study: StudyResult, numbers: list[Metrics]) -> str:
    head = f"On one {gpu}, {_range(each.num_steps for each in numbers)} steps a run, of which "
    head += (
        f"{_range(each.num_steps - each.warmup_rows_dropped for each in numbers)} are measured:\n\n"
    )
    image = _image(study.study, gpu)
    plots = (
        f"![Bar charts: tokens/s/GPU and peak memory of each point on {gpu}](images/{image})\n\n"
    )
    points = [f"- {line}\n" for line in (*sentences(study), *remarks(study))]
    return f"{head}{plots}{markdown(_measured_table(study))}\n{''.join(points)}{_parts(study, numbers)}"


def _measured_table(study: StudyResult) -> Table:
    """Table for readers: factors, what was measured and the ratio with its interval,
    without the state of the runs.
    """
    stated = set().union(*(point.settings for point in study.points))
    columns = [name for name in study.columns if name in stated]
    metrics = []
    for name, metric in NAMES.items():
        if any(point.metrics.get(name) is not None for point in study.points):
            metrics.append(metric)
    titles = (
        *columns,
        "runs",
        *(metric.title or metric.key for metric in metrics),
        "ratio (95 % interval)",
    )
    rows = []
    for point in study.points:
        texts = [metric.text(point.metrics.get(metric.key), "") for metric in metrics]
        rows.append((*factors(point, columns), point.measured, *texts, _interval(point)))
    return Table(titles, rows)


def _interval(point: PointResult) -> str:
    """The ratio to the baseline, as far as it is known."""
    ratio = point.ratio
    if ratio is None:
        return ""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _range(values: Iterable[int]) -> str:
    low, *_, high = sorted([*values] * 2)
    return f"{low}" if low == high else f"{low} to {high}"


def _parts(study: StudyResult, numbers: list[Metrics]) -> str:
    """A table of where one profiled step of each point goes; empty where not every point has one."""
    profiled = [each.breakdown for each in numbers if each.breakdown]
    if len(profiled) < len(numbers):
        return ""
    shown = [
        (name, field)
        for name, field in PARTS.items()
        if any(getattr(each, field) for each in profiled)
    ]
    points = [point for point in study.points if point.measured]
    factors = [name for name in study.columns if any(name in point.settings for point in points)]
    rows = [
        (
            *(setting(point.settings[name]) if name in point.settings else "" for name in factors),
            *(f"{getattr(each, field):.3f} s" for _, field in shown),
            f"{each.step_s:.3f} s",
        )
        for point, each in zip(points, profiled, strict=True)
    ]
    table = markdown(Table((*factors, *(name for name, _ in shown), "profiled step"), rows))
    return f"\nWhere one more, profiled step of each goes:\n\n{table}"


def kept_study(
    name: str, runs: Sequence[MeasuredRun], gpu: str = GPUS[0]
) -> tuple[StudyResult, dict[str, list[RunResult]]]:
    """The study ``name`` with every kept run of one of its points, and these runs by the key of the point.

    Neither the number of steps nor a profile of later ones parts them.
    """
    plan = plan_study(Request(name, gpu))
    by_point: dict[str, list[RunResult]] = defaultdict(list)
    for planned in plan.legal:
        for run in runs:
            if isinstance(planned.spec, TrainingSpec) and _same_steps(run.spec, planned.spec):
                by_point[planned.key].append(
                    RunResult(run.name, run.spec, run.metrics, None, Ending.COMPLETED.value)
                )
    return result(plan, "", None, _attempts(plan, by_point), by_point), by_point


def _same_steps(run: TrainingSpec, point: TrainingSpec) -> bool:
    """Whether the measured steps of a run are those of the point."""
    alike = (run.recipe, run.gpu, run.precision, run.mbs) == (
        point.recipe,
        point.gpu,
        point.precision,
        point.mbs,
    )
    return alike and _steps_of(run) == _steps_of(point)


def _steps_of(spec: TrainingSpec) -> str:
    """What the measured steps of a run are; profiled ones follow them."""
    return spec.model_copy(update={"profile": Profile(), "profiled_steps": None}).step_identity()


def _attempts(
    plan: ResolvedStudy, by_point: dict[str, list[RunResult]]
) -> dict[tuple[str, int], list[Attempt]]:
    done = Attempt(PointState.COMPLETED, Ending.COMPLETED)
    return {slot: [done] for slot in plan.slots if by_point.get(slot[0])}
