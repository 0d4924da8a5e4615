"""This machine as a scheduler: one run at a time, detached from the launcher, with a time limit.

Two trainings at once would measure each other, so the jobs of one results folder wait for a lock, in no promised order.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchrun.errors import MachineError
from benchrun.launch.rundir import STDERR, STDOUT, RunDir
from benchrun.launch.scheduler import Job, Phase

LOCK, PID = ".local.lock", "local.pid"
# Waits for its turn, marks the start, runs the job under its limit, and leaves the exit code behind.
_SUPERVISOR = r"""
exec 9>"$1"
flock 9
touch local.started
timeout --kill-after=10 "$2" bash job.sh >>"$3" 2>>"$4" 9>&-
echo $? >local.exit.tmp && mv local.exit.tmp local.exit
"""
TIMEOUT_CODE = 124
"""What timeout(1) returns when the limit ended the job."""


class Local:
    """Jobs are known by their run directory."""

    lag_s = 0.0

    def submit(self, run: RunDir) -> str:
        for tool in ("bash", "flock", "timeout"):
            if shutil.which(tool) is None:
                raise MachineError(f"{tool} is missing", hint="apt install util-linux coreutils bash")
        limit = str(seconds(run.spec.cluster.time_limit))
        arguments = [str(run.path.parent / LOCK), limit, STDOUT, STDERR]
        process = subprocess.Popen(
            ["bash", "-c", _SUPERVISOR, "benchrun-local", *arguments],
            cwd=run.path,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        (run.path / PID).write_text(f"{process.pid} {_start_time(process.pid)}\n")
        return str(run.path)

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        return {run: _job(run.path) for run in runs if run.job_id or (run.path / PID).exists()}

    def cancel(self, job: str) -> None:
        path = Path(job)
        pid = _alive(path)
        if pid is None:
            return
        (path / "local.cancelled").touch()
        for number in (signal.SIGTERM, signal.SIGKILL):
            family = _family(pid)
            for process in family:
                _kill(process, number)
            if _gone(family, seconds_left=5):
                return


def seconds(limit: str) -> int:
    """``[days-]hours:minutes:seconds`` in seconds."""
    days, _, clock = limit.rpartition("-")
    hours, minutes, rest = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + rest


def _job(path: Path) -> Job:
    code = _exit_code(path)
    if (path / "local.cancelled").exists() and _alive(path) is None:
        return Job(str(path), Phase.ENDED, "CANCELLED", code)
    if code is not None:
        number = code - 128 if code > 128 else None
        state = "COMPLETED" if code == 0 else "TIMEOUT" if code == TIMEOUT_CODE else "FAILED"
        return Job(str(path), Phase.ENDED, state, code, number, ended_at=(path / "local.exit").stat().st_mtime)
    if _alive(path) is None:
        code = _exit_code(path)  # it may have ended between the two looks
        return Job(str(path), Phase.GONE, "UNKNOWN") if code is None else _job(path)
    started = (path / "local.started").exists()
    return Job(str(path), Phase.RUNNING, "RUNNING") if started else Job(str(path), Phase.PENDING, "PENDING")


def _exit_code(path: Path) -> int | None:
    try:
        return int((path / "local.exit").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _alive(path: Path) -> int | None:
    """The supervisor's pid while it lives; its start time tells it from a later process of the same number."""
    try:
        pid, start = (path / PID).read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if start != "None" and str(_start_time(int(pid))) == start else None


def _start_time(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _family(leader: int) -> list[int]:
    """``leader`` and every process below it. Not its session: torchrun gives each rank one of its own."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [leader]
    for process in found:
        found += children.get(process, [])
    return found


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _gone(processes: list[int], seconds_left: float) -> bool:
    end = time.monotonic() + seconds_left
    while time.monotonic() < end:
        if all(_start_time(process) is None for process in processes):
            return True
        time.sleep(0.05)
    return False
