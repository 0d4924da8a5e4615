"""Runs one local job: waits for its turn, enforces its time limit, ends all its
processes.

A separate program, which outlives the launcher: ``python -I -S supervise.py LOCK
LIMIT_S REAPER`` in the run directory; LOCK is the descriptor of the lock file, REAPER
is templates/parts/reap.py. It needs only the standard library. All processes of the run
have MARK in their environment, whatever their sessions and parents; the reaper kills
one that has cleared it, when the job's shell has ended.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

MARK = "BENCHRUN_RUN_DIR"
"""Variable that names the run directory in every process of a run;
templates/job-local.sh.j2 sets it too.
"""
STATE = "local.json"
_ROUNDS = ((signal.SIGTERM, 10, False), (signal.SIGKILL, 5, True), (signal.SIGKILL, 10, False))
"""Steps to end a run: signal, seconds until the next step, whether the job's shell is
spared.
"""


class Process(NamedTuple):
    """A process; its start time distinguishes it from a later one with the same pid."""

    pid: int
    start: int


def main(lock: int, limit_s: int, reaper: str) -> None:
    """Run ``job.sh`` of this directory when the lock is free; STATE holds its state,
    and its exit code in the end.
    """
    run = Path.cwd()
    # Before everything else, and not by the launcher, which may be killed: no job
    # starts that cannot be found.
    _write("PENDING")
    fcntl.flock(lock, fcntl.LOCK_EX)
    end(f"{run.parent}/")  # a job whose supervisor was killed
    _write("RUNNING")
    with open("stdout.log", "ab") as out, open("stderr.log", "ab") as err:  # noqa: PTH123
        env = {**os.environ, MARK: str(run)}
        command = [sys.executable, "-I", "-S", reaper, "bash", "job.sh"]
        job = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    state = None
    try:
        job.wait(limit_s)
    except subprocess.TimeoutExpired:
        state = "TIMEOUT"
    end(str(run))
    code = job.wait()
    code = code if code >= 0 else 128 - code
    _write(state or ("FAILED" if code else "COMPLETED"), code)


def _write(state: str, exit_code: int | None = None) -> None:
    """Write STATE whole or not at all."""
    pid = os.getpid()
    supervisor = {"pid": pid, "start": start_time(pid), "host": os.uname().nodename}
    temporary = Path(f"{STATE}.tmp")
    text = json.dumps({**supervisor, "state": state, "exit_code": exit_code})
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(STATE)


def end(mark: str) -> None:
    """End every process of the run at ``mark``, or of all runs below it if it ends with
    ``/``.

    The job's shell is killed after the others, so that it can still write how the job
    ended. Its reaper ends by itself.
    """
    living = processes(mark)
    for number, seconds, spares_shell in _ROUNDS:
        # Only once: a later process may be the shell's own, as it writes done.json. The
        # next step or the reaper ends the rest. The shell, the oldest, first: a TERM
        # while it prints how its program ended confuses bash.
        signalled = [process for process in living if not _is_spared(process.pid, spares_shell)]
        for process in sorted(signalled, key=lambda process: (process.start, process.pid)):
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)
        until = time.monotonic() + seconds
        while (living := _living(living | processes(mark))) and time.monotonic() < until:
            time.sleep(0.05)


def processes(mark: str) -> set[Process]:
    """Every process whose environment has ``mark``, and their descendants, except this
    process.
    """
    wanted = f"\0{MARK}={mark}".encode() + (b"" if mark.endswith("/") else b"\0")
    children: dict[int, list[Process]] = {}
    run_processes = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            fields = _stat(int(path.name))
            process = Process(int(path.name), int(fields[19]))
            if fields[0] == "Z" or process.pid == os.getpid():
                continue
            children.setdefault(int(fields[1]), []).append(process)
            if wanted in b"\0" + (path / "environ").read_bytes():
                run_processes.append(process)
    for process in run_processes:  # which grows
        run_processes += [
            child for child in children.get(process.pid, []) if child not in run_processes
        ]
    return set(run_processes)


def start_time(pid: int) -> int | None:
    """The start time of a running process in ticks since boot; None if it has ended."""
    try:
        fields = _stat(pid)
    except OSError:
        return None
    if fields[0] == "Z":
        return None
    return int(fields[19])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace", encoding="utf-8")
    return text.rpartition(")")[2].split()


def _living(candidates: set[Process]) -> set[Process]:
    found = set()
    for process in candidates:
        if start_time(process.pid) == process.start:
            found.add(process)
    return found


def _is_spared(pid: int, spares_shell: bool) -> bool:
    """Whether the process is the reaper, or the job's shell if ``spares_shell``."""
    with contextlib.suppress(OSError):
        rest, shell, end = Path(f"/proc/{pid}/cmdline").read_bytes().rpartition(b"bash\0job.sh\0")
        return bool(shell) and not end and (spares_shell or bool(rest))
    return False


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
