"""Submitting runs where the account may have a limited number of jobs in the queue."""

from collections.abc import Callable, Sequence
from itertools import count

from benchrun.app.jobs import has_ended, pause, record_end
from benchrun.app.studies import Tell
from benchrun.errors import MachineError, SchedulerUnavailable, SubmitLimit
from benchrun.launch.launcher import backoff, observe, prepare, submit
from benchrun.launch.rundir import RunDir
from benchrun.spec.runspec import RunSpec


def launch_all(specs: Sequence[RunSpec], started: Callable[[RunDir], None], tell: Tell) -> list[MachineError]:
    """Launch a run of each of ``specs``, waiting while the account may have no more jobs; the errors of those refused.

    ``started`` gets each run that has a job, or may have one, at once. MachineError where the first is refused: so are
    the others, as a rule.
    """
    runs: list[RunDir] = []
    errors: list[MachineError] = []
    for spec in specs:
        run = prepare(spec)
        try:
            _submit_in_time(run, runs, tell)
        except MachineError as error:
            if not runs:
                raise
            errors.append(error)
        else:
            runs.append(run)
            started(run)
    return errors


def _submit_in_time(run: RunDir, going: Sequence[RunDir], tell: Tell) -> None:
    """Submit the job of a prepared run, as soon as the account may have one more. MachineError where it is refused.

    ``going``: runs whose ends make room and are recorded meanwhile. Without an answer the job is looked for in the
    queue.
    """
    for tries in count():
        try:
            submit(run)
        except SubmitLimit as error:
            if not tries:
                tell(f"{run.run_id}: waits until the account may have one more job: {error.message}")
        except SchedulerUnavailable as error:
            tell(f"{run.run_id}: {error.message}; it is looked for in the queue")
            return
        else:
            return
        pause(going, backoff(tries))
        for observation in observe(going):
            if has_ended(observation):
                record_end(observation)
