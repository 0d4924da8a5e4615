"""When a local job has ended, however it ended, no process of it is left on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S
from test_local import local_state, sleeping, start, tiny, until, wait

from benchrun.errors import MachineError
from benchrun.jobs.create import create
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import cancel, observe
from benchrun.jobs.local import Local
from benchrun.jobs.scheduler import Phase
from benchrun.render import render
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir

RANKS = 2
# Like torchrun: each rank has a session of its own.
PROGRAM = """
{trap}
for rank in 1 2; do
  setsid bash -c '{trap}; echo "rank is up"; while :; do sleep {nap}; done' &
done
while :; do wait; done
"""
DEAF = 'trap "" TERM'


def ranks(tmp_path: Path, nap: str, *overrides: str, trap: str = ":") -> RunDir:
    """A run of two ranks that sleep ``nap`` seconds at a time."""
    run = start(tmp_path, PROGRAM.format(trap=trap, nap=nap), *overrides)
    until(lambda: printed(run).count("rank is up") == RANKS)
    return run


def printed(run: RunDir) -> str:
    path = run.path / "stdout.log"
    return path.read_text() if path.exists() else ""


def left(run: RunDir) -> list[Any]:
    """Processes that have the run's mark, or stand in its directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stands = (path / "cwd").readlink() == run.path
            marked = str(run.path).encode() in (path / "environ").read_bytes()
        except OSError:
            continue
        if stands or marked:
            found.append(int(path.name))
    return found


def supervisor(run: RunDir) -> int:
    return run.read_json("local.json")["pid"]


@pytest.mark.thorough
def test_a_job_that_ignores_the_limit_is_a_timeout_and_ends_whole(tmp_path: Path) -> None:
    run = ranks(tmp_path, "71.5", "cluster.time_limit=00:00:02", trap=DEAF)
    end = wait(run, 40)
    assert end.ending is Ending.TIMEOUT
    assert left(run) == []
    assert run.done().signal == "TERM"


@pytest.mark.thorough
def test_cancelled_ranks_that_ignore_it_are_killed(tmp_path: Path) -> None:
    run = ranks(tmp_path, "72.5", trap=DEAF)
    assert cancel(run)
    assert wait(run).ending is Ending.CANCELLED
    assert left(run) == []


@pytest.mark.parametrize("code", [0, 5])
def test_what_a_job_leaves_in_the_background_ends_with_it(tmp_path: Path, code: int) -> None:
    run = start(tmp_path, f"setsid sleep 73.5 & exit {code}")
    assert wait(run, 40).exit_code == code
    assert left(run) == []
    assert not sleeping("73.5")


def test_the_next_run_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    first = ranks(tmp_path, "74.5")
    os.kill(supervisor(first), signal.SIGKILL)
    second = start(tmp_path, f'ls -d /proc/[0-9]*/cwd -l | grep -c "{first.run_id}$"; echo "looked"')
    wait(second, 40)
    assert re.search(r"^0\nlooked$", printed(second), re.MULTILINE)
    assert left(first) == []


def test_status_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    run = ranks(tmp_path, "75.5")
    os.kill(supervisor(run), signal.SIGKILL)
    until(lambda: observe([run])[0].job.state != "RUNNING", 40)
    assert left(run) == []


@pytest.mark.parametrize("whose", ["another user's", "of no supervisor that it knows"])
def test_status_ends_nothing_that_it_cannot_be_sure_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    run = ranks(tmp_path, "75.7")
    if whose == "another user's":
        os.kill(supervisor(run), signal.SIGKILL)
        monkeypatch.setattr(os, "geteuid", lambda: run.owner + 1)
    else:
        (run.path / "local.json").unlink()
    until(lambda: observe([run])[0].job.phase is Phase.GONE)
    assert len(left(run)) > RANKS
    monkeypatch.undo()
    Local().cancel(str(run.path))
    until(lambda: left(run) == [])  # a supervisor that nobody knows ends after its job


def test_cancel_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    run = ranks(tmp_path, "76.5")
    os.kill(supervisor(run), signal.SIGKILL)
    cancel(run)
    assert left(run) == []


def test_another_run_is_left_alone(tmp_path: Path) -> None:
    one, other = ranks(tmp_path / "one", "77.5"), ranks(tmp_path / "other", "77.5")
    cancel(one)
    assert wait(one).ending is Ending.CANCELLED
    assert left(one) == []
    assert len(left(other)) > RANKS
    cancel(other)
    assert left(other) == []


def test_a_run_of_another_host_is_not_judged_here(tmp_path: Path) -> None:
    run = start(tmp_path, "sleep 78.5")
    until(lambda: local_state(run) == "RUNNING")
    path = run.path / "local.json"
    mine = path.read_text()
    path.write_text(json.dumps({**json.loads(mine), "host": "elsewhere"}))
    assert not observe([run])[0].over
    with pytest.raises(MachineError):
        cancel(run)
    assert left(run)
    path.write_text(mine)
    cancel(run)
    assert wait(run).ending is Ending.CANCELLED


def test_a_lock_that_is_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    precious = tmp_path / "precious"
    precious.write_text("not to be lost")
    (tmp_path / "runs" / ".local.lock").symlink_to(precious)
    with pytest.raises(MachineError):
        start(tmp_path / "runs", "echo ran")
    assert precious.read_text() == "not to be lost"


class Killed(BaseException):
    """The launcher is gone at this very place."""


def test_a_job_whose_launcher_was_killed_as_it_began_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen

    def popen(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("benchrun.jobs.local.subprocess.Popen", popen)
        start(tmp_path / "runs", "sleep 79.5")
    (run,) = find_runs(tmp_path / "runs")
    until(lambda: sleeping("79.5"), 40)
    assert observe([run])[0].job.phase is Phase.RUNNING
    assert cancel(run)
    assert wait(run).ending is Ending.CANCELLED
    assert left(run) == []


def test_a_job_that_cannot_be_known_is_never_started(tmp_path: Path) -> None:
    spec = tiny()
    run = create(tmp_path / "runs", spec, render(spec))
    (run.path / "local.json").mkdir()
    with pytest.raises(MachineError):
        Local().submit(run)
    assert left(run) == []
    assert not (run.path / "stdout.log").exists()


def endless(path: Any) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [os.mkfifo, endless, Path.mkdir])
def test_something_else_in_place_of_a_file_is_not_waited_for(tmp_path: Path, make: Callable[..., Any]) -> None:
    run = start(tmp_path, "exit 3")
    wait(run)
    for name in ("local.json", "ending.json"):
        (run.path / name).unlink()
    make(run.path / "local.json")
    status = [sys.executable, "-m", "benchrun", "status", str(run.path)]
    assert subprocess.run(status, timeout=DEADLINE_S, check=False).returncode == 0
