"""This machine as a scheduler: one run at a time, detached from the launcher, with a time limit.

Two trainings at once would slow each other, so the jobs of one results folder wait for a lock, in no defined order.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchrun import paths
from benchrun.errors import MachineError
from benchrun.launch import supervise
from benchrun.launch.documents import read_text
from benchrun.launch.rundir import RunDir
from benchrun.launch.scheduler import Job, Phase
from benchrun.spec.artifacts import LOCAL_CANCELLED, LOCAL_LOCK


class Local:
    """The id of a job is its run directory."""

    lag_s = 0.0

    def submit(self, run: RunDir) -> str:
        if shutil.which("bash") is None:
            raise MachineError("bash is missing", hint="apt install bash")
        reaper, limit_s = paths.TEMPLATES / "parts" / "reap.py", seconds(run.spec.cluster.time_limit)
        lock = _lock(run.path.parent / LOCAL_LOCK)
        env = {name: value for name, value in os.environ.items() if name != supervise.MARK}
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervise.__file__, str(lock), str(limit_s), str(reaper)],
                cwd=run.path,
                env={**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock,),
                start_new_session=True,
            )
        finally:
            os.close(lock)
        while not (recorded := (run.path / supervise.PID).is_file()) and process.poll() is None:
            time.sleep(0.01)
        if not recorded:
            raise MachineError(f"{run.path / supervise.PID} cannot be written", hint="nothing was started")
        return str(run.path)

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        return {run: _job(run) for run in runs if run.job_id or (run.path / supervise.PID).exists()}

    def cancel(self, job: str) -> None:
        path = Path(job)
        pid, host = _supervisor(path)
        if host is not None:
            hint = f"cancel it there: benchrun cancel {path.name}"
            raise MachineError(f"{path.name} was launched on {host}", hint=hint)
        if pid is not None:
            (path / LOCAL_CANCELLED).touch()
            if not (path / supervise.STARTED).exists():
                os.kill(pid, signal.SIGTERM)  # it waits for its turn
        supervise.end(job)
        until = time.monotonic() + 5
        while _supervisor(path)[0] is not None and time.monotonic() < until:
            time.sleep(0.05)


def _lock(path: Path) -> int:
    """The open lock file. MachineError where it is a link, which could lock or create a file elsewhere."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        hint = "it must be a plain file of yours; remove it"
        raise MachineError(f"{path} cannot be locked: {error.strerror}", hint=hint) from error


def seconds(limit: str) -> int:
    """``[days-]hours:minutes:seconds`` in seconds."""
    days, _, clock = limit.rpartition("-")
    hours, minutes, rest = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + rest


def _job(run: RunDir) -> Job:
    path = run.path
    pid, host = _supervisor(path)
    ended = _exit(path)  # after the supervisor, which may end in between
    if ended is not None:
        code, state = ended
        state = "CANCELLED" if (path / LOCAL_CANCELLED).exists() else state
        ended_at = (path / supervise.EXIT).stat().st_mtime
        return Job(str(path), Phase.ENDED, state, code, code - 128 if code > 128 else None, ended_at=ended_at)
    if host is not None:
        return Job(str(path), Phase.RUNNING, "UNKNOWN", reason=f"it was launched on {host}: poll it there")
    started = (path / supervise.STARTED).exists()
    if pid is not None:
        return Job(str(path), Phase.RUNNING, "RUNNING") if started else Job(str(path), Phase.PENDING, "PENDING")
    if (path / LOCAL_CANCELLED).exists():
        return Job(str(path), Phase.ENDED, "CANCELLED")
    if started and run.owner == os.geteuid() and (path / supervise.PID).is_file():
        supervise.end(str(path))  # without its supervisor it has no time limit, and the next run may start
    return Job(str(path), Phase.GONE, "UNKNOWN")


def _exit(path: Path) -> tuple[int, str] | None:
    """The exit code and the final state, once the supervisor has written them."""
    try:
        code, *state = (read_text(path / supervise.EXIT) or "").split()
        return int(code), state[0] if state else "FAILED" if int(code) else "COMPLETED"
    except ValueError:
        return None


def _supervisor(path: Path) -> tuple[int | None, str | None]:
    """The supervisor's pid while it runs; or the other host that it was started on."""
    try:
        pid, start, *host = (read_text(path / supervise.PID) or "").split()
        if host and host[0] != platform.node():
            return None, host[0]
        return (int(pid) if str(supervise.start_time(int(pid))) == start else None), None
    except ValueError:
        return None, None
