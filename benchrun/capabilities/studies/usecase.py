"""Studies: planned, launched with a limit on how many run at once, taken up again,
reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from benchrun.errors import MachineError, SchedulerUnavailable, SubmitLimit, UserError
from benchrun.jobs.endings import End, Ending, recorded, unreadable_ending
from benchrun.jobs.launcher import Observation, backoff, done_of, observe, prepare, refusal, submit
from benchrun.jobs.scheduler import Phase
from benchrun.judge.checks import broken_run
from benchrun.judge.verdict import RunResult
from benchrun.recipes.select import Request
from benchrun.recipes.study import expand
from benchrun.rundir.artifacts import STDOUT
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir, TolerantRun
from benchrun.runspec.spec import RunSpec
from benchrun.usecases.jobs import end_of, has_ended, record_end
from benchrun.usecases.jobs import pause as _pause
from benchrun.usecases.measurement import measure_run, result_of
from benchrun.usecases.submission import Tell
from benchrun.vocabulary import HOUR_S

from .resolved import ResolvedStudy, resolved_study
from .result import StudyResult, result
from .schedule import Attempt, PointState, due
from .state import Slot, StudyDir


def plan_study(request: Request, repeats: int | None = None) -> ResolvedStudy:
    """The points of a study or suite, with ``repeats`` runs of each (as its file states
    if None).

    UserError if the file contradicts itself or no point is legal.
    """
    expanded = expand(request)
    study = expanded.study.model_copy(update={"repeats": repeats or expanded.study.repeats})
    return resolved_study(replace(expanded, study=study))


def study_result(
    planned: ResolvedStudy, price: float | None = None, retries: int = 0
) -> StudyResult:
    """Collect what is known of a study, from its directory and its runs; nothing is
    written.
    """
    directory = StudyDir(planned.expanded.name)
    noted, unreadable = _readable(directory.runs())
    launched = {slot: [*map(_tolerant, runs)] for slot, runs in planned.own(noted).items()}
    foreign = {}
    for slot in planned.slots:
        for run in noted.get(slot, ()):
            if why := planned.foreign(slot, run):
                foreign[slot[0]] = why
    observed = {each.run: each for each in observe([*chain.from_iterable(launched.values())])}
    attempts = {}
    measured: dict[str, list[RunResult]] = {}
    used: dict[str, float] = {}
    notes = [*unreadable.values()]
    for slot, runs in launched.items():
        attempts[slot] = [_attempt(observed[run], end_of) for run in runs]
        of_point = measured.setdefault(slot[0], [])
        hours = []
        for run, attempt in zip(runs, attempts[slot], strict=True):
            of_point.append(_numbers(run, attempt))
            hours.append(_used_hours(run))
            for name, why in run.damaged.items():
                notes.append(f"{run.run_id}: {name} is damaged and left out: {why}")
        known = [each for each in hours if each is not None]
        if known:
            used[slot[0]] = used.get(slot[0], 0.0) + sum(known)
    return result(
        planned,
        str(directory.path),
        price,
        attempts,
        measured,
        retries,
        used,
        foreign | unreadable,
        notes,
    )


def runs_of_other_points(planned: ResolvedStudy) -> int:
    """Runs of a study of this name that are of none of its points: of other options, or
    of an earlier file.
    """
    noted = StudyDir(planned.expanded.name).runs()
    return sum(len(noted[slot]) for slot in noted if slot not in planned.slots)


def study_runs(planned: ResolvedStudy) -> list[RunDir]:
    """Every run that was launched for a study and has ended; readers leave its damaged
    documents out.
    """
    launched = planned.own(_readable(StudyDir(planned.expanded.name).runs())[0])
    ended: list[RunDir] = []
    for each in observe([*chain.from_iterable(launched.values())]):
        if has_ended(each) or _lost_its_ending(each):
            ended.append(_tolerant(each.run))
    return ended


def _readable(
    noted: Mapping[Slot, Sequence[RunDir]],
) -> tuple[dict[Slot, list[RunDir]], dict[str, str]]:
    """The runs whose specification can be read; by the key of a point, why the one of
    another run cannot.
    """
    readable: dict[Slot, list[RunDir]] = {}
    unreadable = {}
    for slot, runs in noted.items():
        for run in runs:
            try:
                run.spec  # noqa: B018
            except UserError as error:
                unreadable[slot[0]] = f"{run.run_id} cannot be read: {error.message}"
            else:
                readable.setdefault(slot, []).append(run)
    return readable, unreadable


def _tolerant(run: RunDir) -> TolerantRun:
    return TolerantRun(run.path, run.read_only)


def _used_hours(run: RunDir) -> float | None:
    """GPU-hours of a run from its start to its end, by its own record; None if that
    lacks one of them.
    """
    done = run.done()
    if done is None or done.elapsed_s is None:
        return None
    return run.spec.num_gpus * done.elapsed_s / HOUR_S


def run_study(
    planned: ResolvedStudy,
    concurrency: int,
    retries: int = 0,
    reuse: bool = False,
    tell: Tell = lambda _: None,
) -> None:
    """Launch what a study still lacks, at most ``concurrency`` runs at a time, and wait
    until all have ended.

    Failed runs are launched again up to ``retries`` times. With ``reuse`` a completed
    run of the very same specification, of another study or of none, stands for a new
    one. Interrupted or killed at any moment, it goes on when it is called again. Where
    the account may have no more jobs, it waits. MachineError if a job is refused: the
    running ones run on.
    """
    directory = StudyDir(planned.expanded.name)
    polls = 0
    ended: dict[RunDir, Attempt] = {}
    notes = {""}
    held = None
    with directory.locked():
        while True:
            launched = planned.own(directory.runs())
            left = []
            for run in chain.from_iterable(launched.values()):
                if run not in ended and run != held:
                    left.append(run)
            just_ended = _ended(left, notes, tell)
            ended |= just_ended
            going = Attempt(PointState.GOING)
            attempts = {}
            for slot, runs in launched.items():
                attempts[slot] = [ended.get(run, going) for run in runs]
            new = list(due(planned.slots, attempts, concurrency, retries))
            waiting = held
            if waiting is None or _is_submitted(waiting, tell, again=True):
                held = _launch(new, planned, directory, tell, reuse=reuse)
            running = [run for run in left if run not in ended]
            if not (new or running or waiting):
                return
            changed = just_ended or held is not waiting or (new and not held)
            polls = 0 if changed else polls + 1
            _pause(running, backoff(polls))


def _launch(
    slots: Sequence[Slot], planned: ResolvedStudy, directory: StudyDir, tell: Tell, *, reuse: bool
) -> RunDir | None:
    """Launch a run of each slot; the one for which the account has no room now, and
    none after it.

    Each is noted before it is submitted: no job exists that the study does not know.
    """
    specs = {each.key: each.spec for each in planned.points if each.spec}
    for slot in slots:
        key, repeat = slot
        point = f"point {planned.number(key)} of {len(planned.points)}"
        same = None
        if reuse:
            same = _same(specs[key], key, directory)
        if same:
            directory.record(slot, same)
            tell(f"{same.run_id}: reused, {point}")
            continue
        run = prepare(specs[key])
        directory.record(slot, run)
        if repeat > 1:
            point += f", repeat {repeat}"
        if not _is_submitted(run, tell, f", {point}"):
            return run
    return None


def _is_submitted(run: RunDir, tell: Tell, point: str = "", *, again: bool = False) -> bool:
    """Submit a run; False if the account may have no more jobs now. MachineError if the
    job is refused.

    ``point`` ends the line about the launch: the number of the point and of the repeat.
    """
    try:
        submit(run)
    except SubmitLimit as error:
        if not again:
            waits = "waits until the account may have one more job"
            tell(f"{run.run_id}: {waits}: {error.message}{point}")
        return False
    except SchedulerUnavailable as error:
        tell(f"{run.run_id}: {error.message}; it is looked for in the queue")
    except MachineError as error:
        hints = (error.hint, "the same command goes on where this one ended")
        error.hint = "; ".join(filter(None, hints))
        raise
    else:
        tell(f"{run.run_id}: launched{point}")
    return True


def _ended(runs: Sequence[RunDir], notes: set[str], tell: Tell) -> dict[RunDir, Attempt]:
    """Return the ``runs`` that have ended, with their endings recorded.

    ``tell`` gets each ending, and each note of the scheduler once: ``notes`` collects
    them.
    """
    ended = {}
    for observation in observe(runs):
        if observation.job is None and observation.note not in notes:
            notes.add(observation.note)
            tell(f"{observation.run.run_id}: {observation.note}")
        attempt = _attempt(observation, record_end)
        if attempt.state is not PointState.GOING:
            ended[observation.run] = attempt
            tell(
                f"{observation.run.run_id}: {attempt.ending.value if attempt.ending else 'not launched'}"
            )
    return ended


def _same(spec: RunSpec, point: str, directory: StudyDir) -> RunDir | None:
    """The newest completed run of this specification that the ``point`` does not have
    yet; None if there is none.
    """
    used = set()
    for (key, _), runs in directory.runs().items():
        if key == point:
            used.update(runs)
    name = f"{spec.recipe}-{spec.identity()}-"
    for run in reversed(find_runs(directory.root)):
        if run in used or not run.run_id.startswith(name):
            continue
        end = recorded(run)
        if end and end.ending is Ending.COMPLETED and run.spec == spec:
            return run
    return None


def _attempt(observation: Observation, end_with: Callable[[Observation], End]) -> Attempt:
    """The state of a run; ``end_with`` determines its ending."""
    if _lost_its_ending(observation):
        ending = _ending_by_log(observation.run)
    elif not has_ended(observation):
        return Attempt(PointState.GOING)
    elif observation.job is None and _never_accepted(observation.run):
        return Attempt(PointState.WAITING)
    else:
        ending = end_with(observation).ending
    state = PointState.COMPLETED if ending is Ending.COMPLETED else PointState.FAILED
    return Attempt(state, ending)


def _never_accepted(run: RunDir) -> bool:
    """Whether no scheduler has accepted a job of the run. Earlier versions stored an
    ending of a refused one.
    """
    return run.job_id is None and (recorded(run) is None or refusal(run) is not None)


def _lost_its_ending(observation: Observation) -> bool:
    """Whether the run has ended, as its unreadable ending.json shows, and neither
    scheduler nor done.json know how.
    """
    run = observation.run
    job = observation.job
    forgotten = job is None or (job.phase is Phase.GONE and done_of(run, job) is None)
    return forgotten and unreadable_ending(run)


def _ending_by_log(run: RunDir) -> Ending:
    """Ending of a run whose record cannot be read: completed if its log gives the run's
    numbers.

    It is never stored.
    """
    try:
        measurement = measure_run(run)
    except UserError:
        return Ending.INCOMPLETE
    metrics = None
    if measurement:
        metrics = measurement.metrics
    if broken_run(metrics, None):
        return Ending.INCOMPLETE
    return Ending.COMPLETED


def _numbers(run: TolerantRun, attempt: Attempt) -> RunResult:
    """Numbers that a run measured; empty while it goes on, and if its log cannot be
    read.
    """
    if attempt.ending is None:
        return RunResult(run.run_id, run.spec, None, None)
    try:
        return replace(result_of(run), ending=attempt.ending.value)
    except UserError as error:
        run.damaged[Path(error.where or STDOUT).name] = error.message
        return RunResult(run.run_id, run.spec, None, None, attempt.ending.value)
