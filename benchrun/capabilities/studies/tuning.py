"""The search for the fastest layout of a point, by short jobs: planned, run round by
round, taken up again, reported.

Each job is a point of a study, so that the directory of that study holds which jobs
were launched; the rounds follow from what they measured (`study.search`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.recipes.schema import Study, SuiteRun
from benchrun.recipes.select import Request
from benchrun.recipes.study import Expanded, StudyPoint
from benchrun.runspec.spec import TrainingSpec
from benchrun.usecases.points import resolve_point
from benchrun.usecases.submission import Tell

from .layouts import STAND_IN, Candidate, Shown, ranked
from .resolved import ResolvedPoint, ResolvedStudy
from .result import StudyResult
from .schedule import PointState
from .search import COMMON, UNKNOWN, Job, Search, Trial
from .tuned import Tuned, tuned
from .usecase import run_study, study_result


@dataclass(frozen=True)
class Tuning:
    """A point, its legal layouts, and the search among them."""

    request: Request
    name: str
    """Name of the study that holds the jobs."""
    candidates: tuple[Candidate, ...]
    search: Search

    @property
    def stands_in(self) -> bool:
        """Whether the machine's speed is not known, so that another's stands for it."""
        return self.candidates[0].prediction.load.gpu is STAND_IN

    def planned(self, jobs: Sequence[Job]) -> ResolvedStudy:
        """The study of ``jobs``."""
        points = tuple(map(self._point, jobs))
        study = Study(
            description=f"layouts of {self.request.recipe}",
            runs=(SuiteRun(recipe=self.request.recipe),),
        )
        return ResolvedStudy(
            Expanded(self.name, study, tuple(each.point for each in points)), points
        )

    def _point(self, job: Job) -> ResolvedPoint:
        candidate = self.candidates[job.layout]
        overrides = (*self.request.overrides, *candidate.overrides, f"training.steps={job.steps}")
        request = replace(self.request, overrides=overrides)
        settings = {"layout": candidate.name, "steps": job.steps}
        return ResolvedPoint(
            StudyPoint(0, settings, request, self.request.recipe), resolve_point(request)
        )


def plan_tuning(
    request: Request,
    varied: Mapping[str, Sequence[int]],
    search_steps: int,
    shown: Shown = iter,
) -> Tuning:
    """The legal layouts of a point that may fit into memory, ranked by prediction.
    UserError if there is none.
    """
    spec = resolve_point(request)
    if not isinstance(spec, TrainingSpec):
        raise UserError(f"{spec.recipe} is no training: it has no layout to search")
    candidates = tuple(ranked(spec, varied, shown))
    loads = [each.prediction.load for each in candidates]
    common = UNKNOWN if hardware.gpu(spec.gpu) is None else COMMON
    search = Search(
        loads, [each.prediction.median for each in candidates], search_steps, common=common
    )
    return Tuning(request, f"{spec.recipe}-tune-{spec.identity()}", candidates, search)


def tune(tuning: Tuning, concurrency: int = 1, tell: Tell = lambda _: None) -> None:
    """Run rounds of jobs until the search is over. Interrupted at any moment, it goes
    on when it is called again.

    Jobs run one at a time unless the machine has room for more: jobs beside each other
    may slow each other.
    """
    while jobs := _next(tuning):
        tell(
            f"next: {', '.join(f'{tuning.candidates[job.layout].name} ({job.steps} steps)' for job in jobs)}"
        )
        run_study(tuning.planned(jobs), concurrency, tell=tell)


def tuning_result(tuning: Tuning) -> Tuned:
    """Collect what the search has found so far, from its files; nothing is written."""
    trials = _trials(tuning)
    return tuned(tuning.candidates, tuning.search, trials, over=not tuning.search.next(trials))


def _next(tuning: Tuning) -> list[Job]:
    """The jobs of the round that is not complete."""
    return tuning.search.next(_trials(tuning))


def _trials(tuning: Tuning) -> list[Trial]:
    """The jobs of all complete rounds, in order: each round follows from those before."""
    trials: list[Trial] = []
    while jobs := tuning.search.next(trials):
        result = study_result(tuning.planned(jobs))
        ended = [_trial(tuning, job, result, place) for place, job in enumerate(jobs)]
        if None in ended:
            return trials
        for trial in ended:
            if trial:
                trials.append(trial)
    return trials


def _trial(tuning: Tuning, job: Job, result: StudyResult, place: int) -> Trial | None:
    """Measure one job; None while it goes on or was not launched."""
    point = result.points[place]
    if point.state not in (PointState.COMPLETED, PointState.FAILED):
        return None
    step_s = None
    if point.state is PointState.COMPLETED:
        step_s = point.metrics.get("step_time_s")
    seconds = tuning.search.start_s + job.steps * (step_s or 0.0)
    return Trial(job.layout, job.steps, seconds, step_s)
