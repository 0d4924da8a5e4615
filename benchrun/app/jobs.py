"""Waiting for runs, and how they went. Imports the parser only where a log is read."""

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchrun.launch.endings import End, Ending, classify, recorded
from benchrun.launch.launcher import Observation, backoff, described, done_of, observe
from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import ENDING, METRICS, PROGRESS, STDOUT, Progress

if TYPE_CHECKING:
    from benchrun.parse import Step

LOG_POLL_S = 0.5
"""Seconds between two reads of the log; the scheduler is polled less often."""


def wait(run: RunDir, progress: "Callable[[Observation, list[Step]], None]" = lambda _, __: None) -> Observation:
    """Poll until the job has ended, and return the last observation. Interrupting it leaves the job running.

    ``progress`` gets each observation with the steps that are new in the log.
    """
    from benchrun.frameworks.logs import Tail

    tail, polls, last_seen = Tail(run.path / STDOUT), 0, ("", False)
    while True:
        observation = observe([run])[0]
        progress(observation, tail.read())
        if has_ended(observation):
            return observation
        done = run.done() is not None
        seen = (observation.job.state if observation.job else observation.note, done)
        polls = 0 if seen != last_seen else polls + 1
        last_seen = seen
        until = time.monotonic() + backoff(polls)
        while time.monotonic() < until and (run.done() is not None) is done:
            time.sleep(LOG_POLL_S)
            if steps := tail.read():
                progress(observation, steps)


def has_ended(observation: Observation) -> bool:
    """Whether the job is over and its log is whole: the last lines of a completed job may reach this host late."""
    completed = observation.job is not None and observation.job.state == "COMPLETED"
    late = completed and not observation.settled and end_of(observation).ending is Ending.INCOMPLETE
    return observation.over and not late


def status_of(observation: Observation) -> dict[str, Any]:
    """An observed run as ``status --json`` prints it. A final ending is recorded.

    ``state`` is the ending of a run that ended, else the job's phase; ``final`` says whether the ending is certain,
    ``slowest_rank`` is that of a run that was measured (metrics.json),
    ``quiet_s`` how many seconds ago the log got its last line, ``note`` why the state is incomplete.
    """
    run, job = observation.run, observation.job
    end = record_end(observation) if observation.over else None
    return {
        "run_id": run.run_id,
        "state": end.ending.value if end else job.phase.value if job else "unknown",
        "ended": end is not None,
        "final": end is not None and end.final,
        "evidence": list(end.evidence) if end else [],
        "exit_code": end.exit_code if end else None,
        "job": run.job_id,
        "nodes": job.nodes if job else "",
        "last_step": end.last_step if end and end.last_step is not None else _last_step(run),
        "planned_steps": run.spec.planned_steps,
        "slowest_rank": ((run.read_json(METRICS) or {}).get("ranks") or {}).get("slowest"),
        "quiet_s": round(observation.quiet_s, 1),
        "note": observation.note,
    }


def _last_step(run: RunDir) -> int | None:
    """The last step at the end of the run's logs, or where its watchdog saw one."""
    from benchrun.frameworks.logs import last_step

    progress = run.read(PROGRESS, Progress)
    steps = []
    for log in run.logs:
        near = progress.step_offset if progress and progress.step_file == log.name else 0
        with contextlib.suppress(OSError):
            steps.append(last_step(log, near))
    last = max((step for step in steps if step is not None), default=None)
    # Profiled steps follow the planned ones.
    return min(last, run.spec.planned_steps) if last is not None and run.spec.planned_steps else last


def end_of(observation: Observation) -> End:
    """The ending of an ended job: the recorded one, else from the scheduler's state, the run's files and its log."""
    run, job = observation.run, observation.job
    if (end := recorded(run)) is not None:
        return end
    if job is None:
        return End(ending=Ending.LAUNCH_FAILED, evidence=(observation.note,), final=observation.settled)
    from benchrun.frameworks.logs import parse_log

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
