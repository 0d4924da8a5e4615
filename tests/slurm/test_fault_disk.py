"""The results' disk is full or read-only, at every step: the job's id is said, no run hides another, no end is lost."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import CLUSTER, DIR, POINT, User

pytestmark = pytest.mark.thorough

HERE = "cluster.exclude=n3"
UNTIL_GO = "echo started; until [ -e go ]; do sleep 0.2; done; exit 5"
STATES = ("full", "readonly")


@pytest.fixture(scope="module")
def small(slurm: Any) -> Iterator[Any]:
    """A user whose results lie on a small file system that every node sees."""
    found = User(slurm, DIR / "small" / "results")
    (DIR / "small" / "results").mkdir(exist_ok=True)
    yield found
    found.leave()


@pytest.fixture
def disk(cluster: Any) -> Iterator[Any]:
    """``with disk("full"):`` or ``"readonly"``; as it was afterwards."""

    @contextlib.contextmanager
    def state(name: Any) -> Iterator[Any]:
        cluster(name)
        try:
            yield
        finally:
            cluster("empty")

    yield state
    cluster("empty")


def launch(user: Any, *sets: Any, **env: Any) -> Any:
    """A launch that may fail: the result, and the run's name if it made a directory."""
    before = set(user.runs.glob("tiny-*"))
    options = (f"--set={each}" for each in (f"cluster.python={user.script(UNTIL_GO)}", HERE, *sets))
    result = user.call("launch", *POINT, *options, check=False, **env)
    assert "Traceback" not in result.stderr
    return result, next(iter({path.name for path in user.runs.glob("tiny-*")} - {path.name for path in before}), None)


@pytest.mark.parametrize("state", STATES)
def test_before_sbatch(small: Any, disk: Any, state: Any) -> None:
    program = f"--set=cluster.python={small.script(UNTIL_GO)}"
    queued = small.slurm("squeue", "--noheader", "--format=%i")
    with disk(state):
        result = small.call("launch", *POINT, program, check=False)
        assert result.returncode in (2, 3)
        assert "Traceback" not in result.stderr
        assert small.slurm("squeue", "--noheader", "--format=%i") == queued
        assert small.call("status", "--json").returncode == 0


@pytest.mark.parametrize("state", STATES)
def test_between_sbatch_and_recording(small: Any, disk: Any, cluster: Any, state: Any) -> None:
    # The job waits until there is space again: without it Slurm could not make its log.
    shims = small.shims(sbatch=f'$real --hold "$@"; {CLUSTER} {state} </dev/null >/dev/null 2>&1')
    try:
        result, run = launch(small, **shims)
        (job,) = small.jobs(run)
        # An event may fit into the last block of its file; where none does, the launcher says the id.
        assert job in result.stdout + result.stderr + (small.runs / run / "events.jsonl").read_text()
        row = next(row for row in small.rows() if row["run_id"] == run)
        assert (row["state"], row["ended"]) == ("pending", False)
    finally:
        cluster("empty")
    small.slurm("scontrol", "release", job)
    small.wait(run, 60, "running")
    (small.runs / run / "go").touch()
    row = small.wait(run, 60)
    assert (row["state"], row["job"], row["exit_code"]) == ("failed", job, 5)


@pytest.mark.parametrize("state", STATES)
def test_while_it_runs_and_when_it_ends(small: Any, disk: Any, state: Any) -> None:
    other = small.program("tiny-llama", 1, "echo started; exec sleep 600", HERE)
    # On a full disk nobody can make a file that would tell the job to end: it is sent a signal.
    run = small.program("tiny-llama", 1, "echo started; trap 'exit 5' USR1; while :; do sleep 0.2; done", HERE)
    small.until(lambda: "started" in small.log(run) and "started" in small.log(other))
    job = small.status(run)["job"]
    with disk(state):
        assert small.status(run)["state"] == "running"
        small.slurm("scancel", "--signal=USR1", f"{job}.1")
        small.until(lambda: small.status(run)["ended"])
        now = {row["run_id"]: row for row in small.rows()}
        assert now[run]["state"] == "failed"
        assert now[other]["state"] == "running"
        assert small.call("cancel", other).returncode == 0
        small.until(lambda: small.status(other)["state"] == "cancelled")
    assert small.wait(run, 30)["state"] == "failed"
    assert small.wait(other, 30)["state"] == "cancelled"
