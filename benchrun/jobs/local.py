"""This machine as a scheduler: one run at a time, detached from the launcher, with a
time limit.

Two trainings at once would slow each other, so the jobs of one results folder wait for
a lock, in no defined order.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from benchrun import paths
from benchrun.errors import MachineError
from benchrun.rundir.artifacts import LOCAL_CANCELLED, LOCAL_LOCK, LOCAL_STATE
from benchrun.rundir.folder import RunDir

from . import supervise
from .scheduler import Job, Phase


class State(BaseModel, frozen=True, strict=True):
    """local.json (benchrun/jobs/supervise.py): the state of a job, and the process that
    supervises it.
    """

    pid: int
    start: int
    """Start time of the process, in ticks since boot."""
    host: str
    state: str
    exit_code: int | None = None


class Local:
    """The id of a job is its run directory."""

    lag_s = 0.0

    def submit(self, run: RunDir) -> str:
        if shutil.which("bash") is None:
            raise MachineError("bash is missing", hint="apt install bash")
        path = run.path
        null = subprocess.DEVNULL
        reaper = paths.TEMPLATES / "parts" / "reap.py"
        limit_s = run.spec.cluster.time_limit_s
        env = {}
        for name, value in os.environ.items():
            if name != supervise.MARK:
                env[name] = value
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"
        lock = _lock(path.parent / LOCAL_LOCK)
        argv = [
            sys.executable,
            "-I",
            "-S",
            supervise.__file__,
            str(lock),
            str(limit_s),
            str(reaper),
        ]
        try:
            process = subprocess.Popen(
                argv,
                cwd=path,
                env=env,
                stdin=null,
                stdout=null,
                stderr=null,
                pass_fds=(lock,),
                start_new_session=True,
            )
        finally:
            os.close(lock)
        while not (recorded := (path / LOCAL_STATE).is_file()) and process.poll() is None:
            time.sleep(0.01)
        if not recorded:
            raise MachineError(
                f"{path / LOCAL_STATE} cannot be written", hint="nothing was started"
            )
        return _mark(run)

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        found = {}
        for run in runs:
            if run.job_id or (run.path / LOCAL_STATE).exists():
                found[run] = _job(run)
        return found

    def cancel(self, job: str) -> bool:
        run = RunDir(Path(job))
        state, lives = _state(run)
        if state and state.host != platform.node():
            hint = f"cancel it there: benchrun cancel {run.run_id}"
            raise MachineError(f"{run.run_id} was launched on {state.host}", hint=hint)
        if state and lives:
            (run.path / LOCAL_CANCELLED).touch()
            if state.state == "PENDING":
                os.kill(state.pid, signal.SIGTERM)  # it waits for its turn
        supervise.end(job)
        until = time.monotonic() + 5
        while _state(run)[1] and time.monotonic() < until:
            time.sleep(0.05)
        return True


def _lock(path: Path) -> int:
    """The open lock file. MachineError if it is a link, which could lock or create a
    file elsewhere.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        hint = "it must be a plain file of yours; remove it"
        raise MachineError(f"{path} cannot be locked: {error.strerror}", hint=hint) from error


def _job(run: RunDir) -> Job:
    job, (state, lives) = _mark(run), _state(run)
    cancelled = (run.path / LOCAL_CANCELLED).exists()
    if state and state.exit_code is not None:
        code = state.exit_code
        name = "CANCELLED"
        if not cancelled:
            name = state.state
        ended_at = (run.path / LOCAL_STATE).stat().st_mtime
        return Job(
            job, Phase.ENDED, name, code, code - 128 if code > 128 else None, ended_at=ended_at
        )
    if state and state.host != platform.node():
        return Job(
            job, Phase.RUNNING, "UNKNOWN", reason=f"it was launched on {state.host}: poll it there"
        )
    if state and lives:
        return Job(job, Phase.PENDING if state.state == "PENDING" else Phase.RUNNING, state.state)
    if cancelled:
        return Job(job, Phase.ENDED, "CANCELLED")
    if state and state.state == "RUNNING" and run.owner == os.geteuid():
        # Without its supervisor it has no time limit, and the next run may start.
        supervise.end(job)
    return Job(job, Phase.GONE, "UNKNOWN")


def _mark(run: RunDir) -> str:
    """The run directory as its supervisor sees it: without links."""
    return str(run.path.resolve())


def _state(run: RunDir) -> tuple[State | None, bool]:
    """The state that the supervisor wrote last, and whether the supervisor lives."""
    state = run.read(LOCAL_STATE, State)
    lives = state is not None and supervise.start_time(state.pid) == state.start
    return state if lives else run.read(LOCAL_STATE, State), lives  # it may have ended in between
