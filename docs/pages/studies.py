"""docs/studies.md: the shipped studies, as far as kept runs cover their points."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchrun.app.studies import plan_study
from benchrun.comparison.measured import MeasuredRun
from benchrun.comparison.verdict import RunResult
from benchrun.launch.endings import Ending
from benchrun.recipe.select import Request
from benchrun.report.study import measured_table, remarks, sentences
from benchrun.report.study_html import study_figures
from benchrun.report.table import markdown
from benchrun.spec.runspec import TrainingSpec
from benchrun.study.plan import Plan
from benchrun.study.result import StudyResult, result
from benchrun.study.schedule import Attempt, State

from .pictures import grid

TEXT = Path(__file__).with_suffix(".md.in")
"""The page: ``$NAME`` stands for what was measured of the study NAME."""
GPU = "H100"
NOTHING = "Not measured yet.\n"


def page(runs: Sequence[MeasuredRun]) -> str:
    """The whole page, in Markdown."""
    lines = TEXT.read_text().splitlines(keepends=True)
    return "".join(_study(line.strip()[1:], runs) if line.startswith("$") else line for line in lines)


def images(runs: Sequence[MeasuredRun]) -> dict[str, str]:
    """File name in docs/images -> the plots of a study: speed and peak memory of each point."""
    names = [line.strip()[1:] for line in TEXT.read_text().splitlines() if line.startswith("$")]
    studies = [study for name in names if (study := kept_study(name, runs)).complete]
    return {
        f"study-{study.study}.svg": grid(
            study.description, [each for each in study_figures(study) if each.level is None]
        )
        for study in studies
    }


def _study(name: str, runs: Sequence[MeasuredRun]) -> str:
    study = kept_study(name, runs)
    if not study.complete:
        return NOTHING
    plots = f"![Bar charts: tokens/s/GPU and peak memory of each point](images/study-{name}.svg)\n\n"
    points = [f"- {line}\n" for line in (*sentences(study), *remarks(study))]
    return f"{plots}{markdown(measured_table(study))}\n{''.join(points)}"


def kept_study(name: str, runs: Sequence[MeasuredRun]) -> StudyResult:
    """The study ``name`` with every kept run of one of its points; the number of steps does not part them."""
    plan = plan_study(Request(name, GPU))
    by_point: dict[str, list[RunResult]] = defaultdict(list)
    for planned in plan.legal:
        for run in runs:
            if isinstance(planned.spec, TrainingSpec) and run.spec.step_identity() == planned.spec.step_identity():
                by_point[planned.key].append(RunResult(run.name, run.spec, run.metrics, None, Ending.COMPLETED.value))
    return result(plan, "", None, _attempts(plan, by_point), by_point)


def _attempts(plan: Plan, by_point: dict[str, list[RunResult]]) -> dict[tuple[str, int], list[Attempt]]:
    done = Attempt(State.COMPLETED, Ending.COMPLETED)
    return {slot: [done] for slot in plan.slots if by_point.get(slot[0])}
