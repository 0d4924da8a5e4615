"""How runs are going. Imports the parser only where an ending is not recorded yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchrun.errors import BenchrunError
from benchrun.launch.endings import recorded
from benchrun.launch.launcher import Observation, observe
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
    """The ending is no guess."""
    evidence: list[str]
    exit_code: int | None
    job: str | None
    nodes: str
    last_step: int | None
    planned_steps: int
    quiet_s: float
    """Seconds since the last line of the log."""
    note: str
    """Why nothing more is known."""


def statuses(runs: Sequence[RunDir]) -> Iterator[tuple[RunDir, RunStatus | BenchrunError | OSError]]:
    """The status of each of ``runs``, or the error of one that cannot be read. Final endings are recorded."""
    for observation in observe(runs):
        try:
            yield observation.run, _status(observation)
        except (BenchrunError, OSError) as error:
            yield observation.run, error


def _status(observation: Observation) -> RunStatus:
    run, end = observation.run, None
    if observation.over:
        end = recorded(run.read_json(ENDING))
        if end is None:
            from benchrun.app.ending import record_end  # imports the parser: half a second

            end = record_end(observation)
    phase = observation.job.phase.value if observation.job else "unknown"
    return RunStatus(
        run_id=run.run_id,
        state=end.ending.value if end else phase,
        ended=end is not None,
        final=end is not None and end.final,
        evidence=list(end.evidence) if end else [],
        exit_code=end.exit_code if end else None,
        job=run.job_id,
        nodes=observation.job.nodes if observation.job else "",
        last_step=end.last_step if end and end.last_step is not None else _last_step(run),
        planned_steps=run.spec.training.steps,
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
