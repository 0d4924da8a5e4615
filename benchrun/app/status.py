"""How runs are going, and how they ended. Imports the parser only where an ending is not recorded yet."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from benchrun.launch.endings import End, Ending, classify, recorded
from benchrun.launch.env import described
from benchrun.launch.launcher import Observation, done_of
from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import ENDING


@dataclass(frozen=True)
class RunStatus:
    """State of one run; the fields are the keys of ``status --json``."""

    run_id: str
    state: str
    """The ending of a run that ended, else the job's phase."""
    ended: bool
    final: bool
    """Whether the ending is certain."""
    evidence: list[str]
    exit_code: int | None
    job: str | None
    nodes: str
    last_step: int | None
    planned_steps: int | None
    quiet_s: float
    """Seconds since the last line of the log."""
    note: str
    """Why the state is incomplete."""


def status_of(observation: Observation) -> RunStatus:
    """The status of an observed run. A final ending is recorded."""
    run, job = observation.run, observation.job
    end = record_end(observation) if observation.over else None
    state = end.ending.value if end else job.phase.value if job else "unknown"
    return RunStatus(
        run_id=run.run_id,
        state=state,
        ended=end is not None,
        final=end is not None and end.final,
        evidence=list(end.evidence) if end else [],
        exit_code=end.exit_code if end else None,
        job=run.job_id,
        nodes=job.nodes if job else "",
        last_step=end.last_step if end and end.last_step is not None else _last_step(run),
        planned_steps=run.spec.planned_steps,
        quiet_s=round(observation.quiet_s, 1),
        note=observation.note,
    )


def _last_step(run: RunDir) -> int | None:
    """The last step at the end of the run's logs, or where its watchdog saw one."""
    from benchrun.frameworks.logs import last_step

    progress = run.progress()
    steps = []
    for log in run.logs:
        near = progress.step_offset if progress and progress.step_file == log.name else 0
        with contextlib.suppress(OSError):
            steps.append(last_step(log, near))
    return max((step for step in steps if step is not None), default=None)


def end_of(observation: Observation) -> End:
    """The ending of an ended job: the recorded one, else from the scheduler's state, the run's files and its log."""
    run, job = observation.run, observation.job
    if (end := recorded(run)) is not None:
        return end
    if job is None:
        return End(ending=Ending.LAUNCH_FAILED, evidence=(observation.note,), final=observation.settled)
    from benchrun.frameworks.logs import parse_log  # only here: a final ending is recorded

    log = parse_log(*run.logs) if run.logs else None
    end = classify(
        job,
        done_of(run, job),
        symptoms={problem.kind: problem.detail for problem in reversed(log.problems)} if log else {},
        steps_seen=log.steps_made if log else 0,
        steps_planned=run.spec.planned_steps or 0,
        quiet_s=observation.quiet_s,
    )
    # Steps of a completed job's log cannot vanish again; any other ending may still change with it.
    final = end.final and ((end.ending is Ending.COMPLETED and described(run)) or observation.settled)
    return end.model_copy(update={"last_step": log.steps.last_step if log else None, "final": final})


def record_end(observation: Observation) -> End:
    """The ending of an ended job, written to ending.json where it is final, because schedulers forget.

    A guess is not written, nor one that rests on files that may still change, nor where the disk is full or read-only:
    the next call determines it anew.
    """
    run, end = observation.run, end_of(observation)
    if end.final and recorded(run) is None:
        with contextlib.suppress(OSError):
            run.write_json(ENDING, end.model_dump(mode="json"))
            run.append_event("ended", ending=end.ending.value)
    return end
