"""Waiting for runs, and how they went. Imports the parser only if a log is read."""

import contextlib
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchrun import clock
from benchrun.jobs.endings import End, Ending, classify, recorded
from benchrun.jobs.launcher import (
    Observation,
    asked_to_cancel,
    backoff,
    described,
    done_of,
    observe,
)
from benchrun.jobs.scheduler import Job
from benchrun.rundir.artifacts import (
    ENDING,
    ENV,
    METRICS,
    PROGRESS,
    STDOUT,
    Progress,
    stated_network,
)
from benchrun.rundir.find import launch_time
from benchrun.rundir.folder import RunDir
from benchrun.rundir.network import slow_network

if TYPE_CHECKING:
    from benchrun.frameworks.logs import Tail
    from benchrun.logs import Rows, Step

Progressed = Callable[[Observation, "list[Step]"], None]
"""Receiver of each observation of a run, with the steps that are new in its log."""

RECENT = 10
"""Steps whose median is the step time of a run that is not measured yet."""
LOG_POLL_S = 0.5
"""Seconds between two reads of the log; the scheduler is polled less often."""


def wait(run: RunDir, progress: Progressed = lambda _, __: None) -> Observation:
    """Poll until the job has ended, and return the last observation. Interrupting it
    leaves the job running.

    ``progress`` gets each observation with the steps that are new in the log.
    """
    return wait_for([run], progress)[0]


def wait_for(
    runs: Sequence[RunDir], progress: Progressed = lambda _, __: None
) -> list[Observation]:
    """`wait` for all of ``runs``, with one poll of each scheduler for all of them; the
    last observation of each.
    """
    from benchrun.frameworks.logs import Tail

    tails = {run: Tail(run.path / STDOUT) for run in runs}
    ended = {}
    polls = 0
    last_seen = None
    while left := [run for run in tails if run not in ended]:
        observations = {observation.run: observation for observation in observe(left)}
        for run, observation in observations.items():
            progress(observation, tails[run].read())
            if has_ended(observation):
                ended[run] = observation
        seen = []
        for each in observations.values():
            seen.append((each.job.state if each.job else each.note, each.run.done() is not None))
        polls = 0 if seen != last_seen else polls + 1
        last_seen = seen
        going = {}
        for run, observation in observations.items():
            if run not in ended:
                going[run] = observation
        _follow(going, tails, progress, clock.monotonic() + backoff(polls))
    return [ended[run] for run in runs]


def _follow(
    going: dict[RunDir, Observation],
    tails: "dict[RunDir, Tail]",
    progress: Progressed,
    until: float,
) -> None:
    """Report new steps until it is time to poll, or one of the jobs has ended."""
    done = {run: run.done() is not None for run in going}
    while (
        going
        and clock.monotonic() < until
        and all((run.done() is not None) is done[run] for run in going)
    ):
        clock.sleep(LOG_POLL_S)
        for run, observation in going.items():
            if steps := tails[run].read():
                progress(observation, steps)


def pause(runs: Sequence[RunDir], seconds: float) -> None:
    """Wait ``seconds``, or until one more of ``runs`` has written its end."""
    done = sum(run.done() is not None for run in runs)
    until = clock.monotonic() + seconds
    while clock.monotonic() < until and sum(run.done() is not None for run in runs) == done:
        clock.sleep(LOG_POLL_S)


def unanswered(run: RunDir) -> str | None:
    """Reason why it is not known whether the job of ``run`` goes on, so that waiting
    may have no end; None if it is.

    Slurm or its accounting does not answer, or has no job with the run's directory yet.
    """
    (observation,) = observe([run])
    lost = observation.job is None or bool(observation.job.unsure)
    if lost and not observation.over:
        return observation.note
    return None


def has_ended(observation: Observation) -> bool:
    """Whether the job is over and its log is whole: the last lines of a completed job
    may reach this host late.
    """
    completed = observation.job is not None and observation.job.state == "COMPLETED"
    late = completed and not observation.settled and end_of(observation).ending is Ending.INCOMPLETE
    return observation.over and not late


def status_of(observation: Observation) -> dict[str, Any]:
    """An observed run as ``status --json`` prints it. A final ending is recorded.

    ``state`` is the ending of a run that ended, else the job's phase; ``final``: the
    ending is certain; ``slowest_rank``: of a run that was measured (metrics.json);
    ``quiet_s``: seconds since the last line of the log, of those in which the job ran;
    ``note``: why the state is incomplete, and a network that is slower than the site's;
    ``network``: links of the ranks, as NCCL names them; ``age_s``: seconds since the launch;
    ``step_time_s``: the measured median, or that of the last steps of a run that is not
    measured yet.
    """
    run = observation.run
    job = observation.job
    end = None
    if observation.over:
        end = record_end(observation)
    logs = run.logs
    if end and end.last_step is not None:
        logs = ()
    last_step, step_time_s = _progress(run, logs)
    ending = {"state": "unknown", "ended": False, "final": False, "evidence": [], "exit_code": None}
    if end:
        last_step = last_step if end.last_step is None else end.last_step
        step_time_s = step_time_s or end.step_time_s
        ending = {
            "state": end.ending.value,
            "ended": True,
            "final": end.final,
            "evidence": list(end.evidence),
            "exit_code": end.exit_code,
        }
    elif job:
        ending["state"] = job.phase.value
    network = stated_network(run.read_json(ENV) or {})
    if network is None and not observation.over:
        network = run.network()
    slow = slow_network(network, run.spec.cluster.fabric)
    return {
        "run_id": run.run_id,
        **ending,
        "job": run.job_id,
        "nodes": job.nodes if job else (run.last_event("state") or {}).get("nodes", ""),
        "last_step": last_step,
        "planned_steps": run.spec.planned_steps,
        "slowest_rank": ((run.read_json(METRICS) or {}).get("ranks") or {}).get("slowest"),
        "quiet_s": round(observation.quiet_s, 1),
        "note": "; ".join(filter(None, (slow, observation.note))),
        "network": network.words if network else None,
        "age_s": round(_age_s(run), 1),
        "step_time_s": step_time_s or None,
    }


def _age_s(run: RunDir) -> float:
    """Seconds since the launch. A kept run's files are as old as its copy: its id tells."""
    launched = launch_time(run.run_id) if run.read_only else None
    created = launched.timestamp() if launched else run.created
    return max(0.0, (run.clock() or clock.now()) - (created or clock.now()))


def _progress(run: RunDir, logs: Sequence[Path]) -> tuple[int | None, float | None]:
    """The last step at the end of ``logs``, or where its watchdog saw one, and the time
    of a step in seconds.
    """
    from benchrun.frameworks.logs import last_rows

    measured = (run.read_json(METRICS) or {}).get("step_time_s")
    step_time_s = None
    if isinstance(measured, dict):
        step_time_s = measured.get("median")
    progress = run.read(PROGRESS, Progress)
    steps = []
    for log in logs:
        near = 0
        if progress and progress.step_file == log.name:
            near = progress.step_offset
        with contextlib.suppress(OSError):
            rows = last_rows(log, near)
            steps.append(rows.last_step)
            step_time_s = step_time_s or recent_time(rows, run.spec.planned_steps)
    last = max((step for step in steps if step is not None), default=None)
    if last is not None and run.spec.planned_steps:
        last = min(last, run.spec.planned_steps)  # profiled steps follow the planned ones
    return last, step_time_s


def recent_time(rows: "Rows", planned_steps: int | None) -> float | None:
    """Median time in seconds of the last planned steps; profiled ones follow them. None
    if no row has a time.
    """
    planned = (row for row in reversed(rows) if not planned_steps or row.step <= planned_steps)
    times = []
    for row in islice(planned, RECENT):
        if row.step_time_s is not None:
            times.append(row.step_time_s)
    if not times:
        return None
    return median(times)


def end_of(observation: Observation) -> End:
    """The ending of an ended job: the recorded one, else from the scheduler's state,
    the run's files and its log.
    """
    run = observation.run
    job = observation.job
    if (end := recorded(run)) is not None:
        return end
    if job is None:
        return End(
            ending=Ending.LAUNCH_FAILED, evidence=(observation.note,), final=observation.settled
        )
    from benchrun.frameworks.logs import parse_log

    log = None
    if run.logs:
        log = parse_log(*run.logs)
    done = done_of(run, job)
    end = classify(
        job,
        done,
        symptoms=log.symptoms if log else {},
        steps_seen=log.steps_made if log else 0,
        steps_planned=run.spec.planned_steps or 0,
        quiet_s=observation.quiet_s,
        asked=asked_to_cancel(run, job),
        began=done is not None or _began(run, job),
    )
    # Steps of a completed job's log cannot vanish again; any other ending may still
    # change with it.
    final = end.final and (
        (end.ending is Ending.COMPLETED and described(run)) or observation.settled
    )
    time_s = None
    if log and end.ending is Ending.COMPLETED:
        time_s = recent_time(log.steps, run.spec.planned_steps)
    update = {
        "last_step": log.steps.last_step if log else None,
        "step_time_s": time_s,
        "final": final,
    }
    return end.model_copy(update=update)


def _began(run: RunDir, job: Job) -> bool:
    """Whether the script of an ended job began, or may have: a node that fails before
    writes into stderr.log alone.
    """
    has_nodes = bool(job.nodes) and run.spec.cluster.scheduler == "slurm"
    return not has_nodes or (run.path / STDOUT).exists()


def record_end(observation: Observation) -> End:
    """The ending of an ended job, written to ending.json if it is final, because
    schedulers forget.

    A guess is not written, nor one that rests on files that may still change, nor if
    the disk is full or read-only: the next call determines it anew. Nor that of a run
    whose job was refused: it may be submitted again. Of two processes one writes it.
    """
    run = observation.run
    end = end_of(observation)
    if end.final and observation.job is not None and recorded(run) is None:
        with contextlib.suppress(OSError):
            run.write_json(ENDING, end.document(), first=not os.path.lexists(run.path / ENDING))
            run.append_event("ended", ending=end.ending.value)
    return end
