"""The launcher dies, or its clock is wrong: the job is found again, submitted once, and ends in its true name."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from selection import some

from .conftest import POINT

HERE = "cluster.exclude=n3"
SLEEP = "echo started; exec sleep 600"
UNTIL_GO = "echo started; until [ -e go ]; do sleep 0.2; done; exit 5"
# The kill reaches benchrun, which called the program that stands in for Slurm's.
KILLED = {
    "before sbatch": {"sbatch": "kill -KILL $PPID; exit 1"},
    "after sbatch": {"sbatch": '$real "$@"; kill -KILL $PPID; exit 1'},
    "while sbatch": {"sbatch": 'kill -KILL $PPID; sleep 1; exec $real "$@"'},
}
CLOCKS = ("+120s", "-120s")


@pytest.fixture(scope="module")
def killed(user: Any) -> Any:
    """Run ids by when their launcher was killed."""
    runs = {}
    for when, shims in KILLED.items():
        before = set(user.runs.iterdir()) if user.runs.exists() else set()
        program = f"--set=cluster.python={user.script(SLEEP)}"
        result = user.call("launch", *POINT, program, f"--set={HERE}", check=False, **user.shims(**shims))
        assert result.returncode == -signal.SIGKILL
        (run,) = set(user.runs.iterdir()) - before
        runs[when] = run.name
    return runs


@pytest.mark.parametrize("when", ["after sbatch", "while sbatch"])
def test_killed_around_sbatch_the_job_is_found(user: Any, killed: Any, when: Any) -> None:
    row = user.wait(killed[when], 60, "running")
    assert user.jobs(killed[when]) == [row["job"]]
    user.call("cancel", killed[when])
    assert user.wait(killed[when], 60)["state"] == "cancelled"


def test_killed_while_polling(user: Any) -> None:
    launcher, run = user.follow(UNTIL_GO)
    user.until(lambda: "started" in user.log(run))
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    job = user.status(run)["job"]
    (user.runs / run / "go").touch()
    row = user.wait(run, 60)
    assert (row["state"], row["exit_code"]) == ("failed", 5)
    assert user.jobs(run) == [job]


def test_killed_while_judging(user: Any) -> None:
    """At several moments after the job's last word: nothing is half written, the end is true."""
    followed = [user.follow(UNTIL_GO) for _ in range(4)]
    for _, run in followed:
        user.until(lambda run=run: "started" in user.log(run))
        (user.runs / run / "go").touch()

    def kill(launcher: Any, run: Any, delay_s: Any) -> None:
        user.until(lambda: (user.runs / run / "done.json").exists())
        time.sleep(delay_s)
        launcher.kill()
        launcher.wait()

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each, delay_s: kill(*each, delay_s), followed, (0.0, 0.2, 0.7, 1.5)))
    for _, run in followed:
        row = user.wait(run, 60)
        assert (row["state"], row["exit_code"], len(user.jobs(run))) == ("failed", 5, 1)
        for file in (user.runs / run).glob("*.json"):
            json.loads(file.read_text())


def test_killed_before_sbatch_nothing_was_submitted_and_nothing_is_stored(user: Any, killed: Any) -> None:
    run = killed["before sbatch"]
    row = user.wait(run, 90, "launch_failed")
    assert row["job"] is None
    assert not user.jobs(run)
    assert not (user.runs / run / "ending.json").exists()


@pytest.fixture(scope="module")
def faketime() -> Any:
    """The environment of a process whose clock is wrong."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("needs libfaketime: apt install faketime")
    # For benchrun alone: Slurm's commands and the job start with the true clock.
    # FAKE_UTIME: files keep the time of their file server.
    return lambda by: {"LD_PRELOAD": str(found[0]), "FAKETIME": by, "FAKE_UTIME": "1"}


@pytest.fixture
def true_clock(user: Any) -> Any:
    """Slurm's commands with the true clock, below a benchrun with a wrong one."""
    true = 'unset LD_PRELOAD FAKETIME; exec $real "$@"'
    return user.shims(sbatch=true, squeue=true, sacct=true, scancel=true)


@pytest.mark.parametrize("by", some(CLOCKS, 1))
def test_a_wrong_clock_ends_no_run(user: Any, faketime: Any, true_clock: Any, by: Any) -> None:
    """sbatch's answer is lost, and the queue does not list the job yet."""
    said = "Connection reset by peer"
    lost = user.shims(sbatch=f'unset LD_PRELOAD FAKETIME; $real "$@" >/dev/null; echo "{said}" >&2; exit 1')
    before = set(user.runs.iterdir())
    program = f"--set=cluster.python={user.script(SLEEP)}"
    result = user.call("launch", *POINT, program, f"--set={HERE}", check=False, **faketime(by), **lost)
    assert result.returncode == 3
    (run,) = (path.name for path in set(user.runs.iterdir()) - before)
    row = user.status(run, **faketime(by), **user.shims(squeue="exit 0", sacct="exit 0"))
    assert row["ended"] is False
    row = user.wait(run, 60, "running")
    row = user.status(run, **faketime(by), **true_clock)
    assert (row["state"], row["ended"], row["quiet_s"] < 60) == ("running", False, True)
    row = user.status(run, **faketime(by), **user.shims(squeue="exit 0", sacct="exit 0"))
    assert row["ended"] is False
    user.call("cancel", run)
    assert user.wait(run, 60)["state"] == "cancelled"


@pytest.mark.parametrize("by", some(CLOCKS, 1))
def test_a_run_followed_by_a_wrong_clock_ends_in_its_name(user: Any, faketime: Any, true_clock: Any, by: Any) -> None:
    launcher, run = user.follow("echo started; sleep 2; exit 5", **faketime(by), **true_clock)
    launcher.communicate(timeout=90)
    row = user.status(run)
    assert (row["state"], row["exit_code"]) == ("failed", 5)


@pytest.mark.parametrize("by", some(CLOCKS, 1))
def test_slurm_with_a_wrong_clock(user: Any, faketime: Any, by: Any) -> None:
    """The controller and the files have one clock, the commands that ask it another."""
    env = " ".join(f"{name}={value}" for name, value in faketime(by).items())
    wrong = user.shims(**dict.fromkeys(("squeue", "sacct", "scancel"), f'exec env {env} $real "$@"'))
    run = user.program("tiny-llama", 1, UNTIL_GO, HERE)
    user.until(lambda: "started" in user.log(run))
    assert user.status(run, **wrong)["state"] == "running"
    (user.runs / run / "go").touch()
    user.until(lambda: (user.runs / run / "done.json").exists())
    user.until(lambda: user.status(run, **wrong)["ended"])
    assert user.status(run)["state"] == "failed"
