"""Starting runs, waiting for them, stopping them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchrun import paths
from benchrun.app.status import end_of
from benchrun.frameworks.logs import Tail
from benchrun.launch.endings import Ending
from benchrun.launch.launcher import Observation, backoff, launch, observe
from benchrun.launch.rundir import RunDir
from benchrun.parse import Step
from benchrun.render import render
from benchrun.spec.artifacts import STDOUT
from benchrun.spec.runspec import RunSpec

Progress = Callable[[Observation, list[Step]], None]
LOG_POLL_S = 0.5
"""Seconds between two reads of the log; the scheduler is polled less often."""


def start(spec: RunSpec, root: Path | None = None) -> RunDir:
    """Render ``spec`` and submit its job; the new run directory lies below ``root`` (the runs folder where None).

    UserError where nothing can be written, MachineError where the job is refused.
    """
    return launch(spec, render(spec), root or paths.runs_dir())


def wait(run: RunDir, progress: Progress = lambda _, __: None) -> Observation:
    """Poll until the job has ended, and return the last observation. Interrupting it leaves the job running.

    ``progress`` gets each observation with the steps that are new in the log.
    """
    tail, polls, last_seen = Tail(run.path / STDOUT), 0, ("", False)
    while True:
        observation = observe([run])[0]
        progress(observation, tail.read())
        # The last lines of a completed job may reach this host late: it is not incomplete yet.
        completed = observation.job is not None and observation.job.state == "COMPLETED"
        late = completed and not observation.settled and end_of(observation).ending is Ending.INCOMPLETE
        if observation.over and not late:
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
