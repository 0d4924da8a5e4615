"""A daemon that a rank starts has no parent, session or environment of its run, and still ends with it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import Signals
from subprocess import Popen
from typing import Any

import pytest
from calling import DEADLINE_S
from test_local import start, tiny, until, wait

from benchrun import paths
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import cancel
from benchrun.render import render

REAP = paths.TEMPLATES / "parts" / "reap.py"
DAEMON = """
( setsid env -i bash -c 'cd /; trap "" TERM; exec -a "$0" sleep 600' "{name}" </dev/null >/dev/null 2>&1 & )
"""
DEAF = DAEMON + "trap '' TERM; echo started; while :; do sleep 1; done"


def alive(name: str) -> list[Any]:
    """Pids of the processes of this name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(name.encode() + b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    """A name for a daemon of this test alone."""
    yield f"daemon-{tmp_path.name}-{os.getpid()}"
    for pid in alive(f"daemon-{tmp_path.name}-{os.getpid()}"):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("code", [0, 5])
def test_after_the_end_of_a_local_job(tmp_path: Path, name: str, code: int) -> None:
    run = start(tmp_path, DAEMON.format(name=name) + f"sleep 1; pgrep -fc '^{name}'; exit {code}")
    assert wait(run, 40).exit_code == code
    assert alive(name) == []
    assert (run.path / "stdout.log").read_text() == "1\n"


@pytest.mark.thorough
def test_after_a_cancelled_local_job(tmp_path: Path, name: str) -> None:
    run = start(tmp_path, DEAF.format(name=name))
    until(lambda: alive(name))
    assert cancel(run)
    assert wait(run).ending is Ending.CANCELLED
    assert alive(name) == []
    assert run.done().signal == "TERM"


@pytest.mark.thorough
def test_after_the_limit_of_a_local_job(tmp_path: Path, name: str) -> None:
    run = start(tmp_path, DEAF.format(name=name), "cluster.time_limit=00:00:03")
    assert wait(run, 60).ending is Ending.TIMEOUT
    assert alive(name) == []
    assert run.done().signal == "TERM"


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["{rank}", "{rank} & wait", "exec {rank}"])
def test_after_the_deadline_of_a_local_job(tmp_path: Path, name: str, ending: str) -> None:
    rank = f"env -i bash -c 'trap \"\" TERM; exec -a {name} sleep 600'"
    run = start(tmp_path, DAEMON.format(name=name) + ending.format(rank=rank), "cluster.step_deadline_s=5")
    until(lambda: len(alive(name)) == 2)
    assert wait(run, 60).ending is Ending.HUNG
    assert alive(name) == []


def reap(script: str, **options: bool | int) -> Popen:
    # A shell without job control ignores SIGINT in what it starts in the background, this test perhaps among it.
    as_usual = ["env", "--default-signal=INT"]
    return subprocess.Popen([*as_usual, sys.executable, "-I", "-S", REAP, "bash", "-c", script], **options)


def test_only_what_the_command_started_is_ended(name: str) -> None:
    bystander = subprocess.Popen(["bash", "-c", f"exec -a {name}-bystander sleep 600"])
    try:
        left = f"sleep 600 & (setsid bash -c 'exec -a {name} sleep 600' & (exec -a {name} sleep 600) & ) & disown -a; "
        assert reap(f"{left} until [ $(pgrep -fc '^{name} ') = 2 ]; do sleep 0.05; done; exit 3").wait(DEADLINE_S) == 3
        assert alive(name) == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGPIPE])
def test_it_ends_by_the_signal_that_ended_the_command(number: Signals) -> None:
    assert reap(f"ulimit -c 0; kill -{number} $$").wait(DEADLINE_S) == -number


def test_it_hands_signals_on_and_outlives_them() -> None:
    script = "trap 'echo heard' USR1; trap 'exit 6' TERM; echo up; while :; do sleep 0.1; done"
    both = reap(script, stdout=subprocess.PIPE, text=True)
    for number, word in ((signal.SIGUSR1, "up"), (signal.SIGTERM, "heard")):
        assert both.stdout.readline() == f"{word}\n"
        both.send_signal(number)
    assert both.wait(DEADLINE_S) == 6


def test_without_python_a_step_runs_and_says_so(tmp_path: Path) -> None:
    for program in ("bash", "uname"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    job = render(tiny("cluster.scheduler=slurm"))["job.sh"]
    reaped = re.search(r"^reaped=\(.*?^\)$", job, re.MULTILINE | re.DOTALL).group()
    for path, said in ((str(tmp_path), 1), (os.environ["PATH"], 0)):
        command = ["/usr/bin/bash", "-c", f'{reaped}\n"${{reaped[@]}}" bash -c \'echo "$1"; exit 5\' rank "a  b"']
        ended = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (5, "a  b\n")
        assert ended.stderr.count("\n") == said
