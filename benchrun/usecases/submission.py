"""Launching several runs if the account may have a limited number of jobs in the queue."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from benchrun import paths
from benchrun.errors import MachineError, SchedulerUnavailable, SubmitLimit
from benchrun.jobs.launcher import backoff, observe, submit
from benchrun.jobs.launcher import start as start_run
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec

from .jobs import has_ended, pause, record_end

Tell = Callable[[str], None]
"""Gets one line for a person about each launch and each ending."""


def launch_all(
    specs: Sequence[RunSpec],
    started: Callable[[RunDir], None],
    tell: Tell = lambda _: None,
    start: Callable[[RunSpec], RunDir] = start_run,
) -> list[MachineError]:
    """Launch a run of each of ``specs``, waiting while the account may have no more
    jobs; the errors of those refused.

    ``started`` gets each run that has a job, or may have one, at once. MachineError if
    none has.
    """
    runs: list[RunDir] = []
    errors = []
    for spec in specs:
        try:
            run = start_in_time(spec, paths.runs_dir(), runs, tell, start)
        except MachineError as error:
            errors.append(error)
        else:
            runs.append(run)
            started(run)
        if errors and not runs:
            raise errors[0]
    return errors


def start_in_time(
    spec: RunSpec,
    root: Path,
    going: Sequence[RunDir] = (),
    tell: Tell = lambda _: None,
    start: Callable[[RunSpec], RunDir] | None = None,
) -> RunDir:
    """A run of ``spec`` in the folder ``root`` that has a job, or may have one.
    MachineError if the job is refused.

    ``going``: runs whose ends make room if the account may have no more jobs. ``start``
    launches into ``root``.
    """
    try:
        if start:
            return start(spec)
        return start_run(spec, root)
    except SubmitLimit as error:
        tell(f"{error}; waiting until the account may have one more job")
        run = _named(error, root)
        _submit_in_time(run, going)
        return run
    except SchedulerUnavailable as error:
        tell(f"{error}; it is looked for in the queue")
        return _named(error, root)


def _named(error: MachineError, root: Path) -> RunDir:
    """The run whose submission failed."""
    return RunDir(paths.given(root / str(error.where)))


def _submit_in_time(run: RunDir, going: Sequence[RunDir]) -> None:
    """Submit the job of a prepared run as soon as the account may have one more.
    MachineError if it is refused.

    ``going``: runs whose ends make room, and are recorded meanwhile.
    """
    for tries in count():
        pause(going, backoff(tries))
        for observation in observe(going):
            if has_ended(observation):
                record_end(observation)
        try:
            submit(run)
        except SubmitLimit:
            continue
        except SchedulerUnavailable:
            return
        return
