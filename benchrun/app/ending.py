"""How an ended job ended."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from benchrun.frameworks.logs import parse_log
from benchrun.launch.endings import End, Ending, classify, record, recorded
from benchrun.launch.env import described
from benchrun.launch.launcher import Observation, done_of
from benchrun.spec.artifacts import ENDING


def end_of(observation: Observation) -> End:
    """The ending of an ended job: the recorded one, else from the scheduler's state, the run's files and its log."""
    run = observation.run
    if (written := recorded(run.read_json(ENDING))) is not None:
        return written
    if observation.job is None:
        return End(Ending.LAUNCH_FAILED, (observation.note,), final=observation.settled)
    log = parse_log(*run.logs) if run.logs else None
    end = classify(
        observation.job,
        done_of(run, observation.job),
        symptoms={problem.kind: problem.detail for problem in reversed(log.problems)} if log else {},
        steps_seen=log.steps_made if log else 0,
        steps_planned=run.spec.training.steps,
        quiet_s=observation.quiet_s,
    )
    # Steps of a completed job's log cannot vanish again; any other ending may still change with it.
    final = end.final and ((end.ending is Ending.COMPLETED and described(run)) or observation.settled)
    return replace(end, last_step=log.steps.last_step if log else None, final=final)


def record_end(observation: Observation) -> End:
    """The ending of an ended job, written to ending.json where it is final, because schedulers forget.

    A guess is not written, nor one that rests on files that may still change, nor where the disk is full or read-only:
    the next call determines it anew.
    """
    run = observation.run
    end = end_of(observation)
    if end.final and recorded(run.read_json(ENDING)) is None:
        with contextlib.suppress(OSError):
            run.write_json(ENDING, record(end).model_dump(mode="json"))
            run.append_event("ended", ending=end.ending.value)
    return end
