"""Debian 13's Slurm (24.11) beside Debian 12's (22.05): a cluster of its own, and the endings that matter most."""

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import CLUSTER, DIR, NUMBER, POINT, User

pytestmark = pytest.mark.thorough

SLEEP = "echo started; exec sleep 600"
TWO = "cluster.gpus_per_node=1"


@pytest.fixture(scope="module")
def switch(slurm: Any) -> Iterator[Any]:
    """The other cluster's ``cluster.sh``; it is up until the last test here."""
    if os.environ.get("BENCHRUN_SLURM_RELEASE"):
        pytest.skip("the cluster of the other tests is of another release itself")
    own = {"BENCHRUN_SLURM_DIR": f"{DIR}-trixie", "BENCHRUN_SLURM_NUMBER": str(NUMBER + 1)}
    env = {**os.environ, **own, "BENCHRUN_SLURM_RELEASE": "trixie"}

    def call(*args: Any) -> None:
        subprocess.run([CLUSTER, *args], env=env, check=True, stdout=subprocess.DEVNULL)

    call("start")
    yield call
    call("stop")


@pytest.fixture(scope="module")
def newer(switch: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = User(f"{DIR}-trixie/etc/slurm.conf", tmp_path_factory.mktemp("newer"))
    yield found
    found.leave()


@pytest.fixture(scope="module")
def runs(newer: Any) -> Any:
    """Run ids by what is to happen to them."""
    return {
        "limit": newer.program("tiny-llama", 1, SLEEP, "cluster.time_limit=00:01:00"),
        "trained": newer.launch("tiny-llama", 2, TWO),
        "failing": newer.program("tiny-llama", 2, '[ "$RANK" = 1 ] && exit 7; exec sleep 600', TWO),
        "cancelled": newer.program("tiny-llama", 2, SLEEP, TWO),
        "outage": newer.program("tiny-llama", 1, "echo started; until [ -e go ]; do sleep 0.2; done"),
    }


def test_it_is_another_release(newer: Any) -> None:
    assert newer.slurm("sinfo", "--version").startswith("slurm-wlm 24.11")


def test_two_nodes_train(newer: Any, runs: Any) -> None:
    row = newer.wait(runs["trained"], 150)
    assert (row["state"], row["last_step"]) == ("completed", 20)


def test_a_failing_rank(newer: Any, runs: Any) -> None:
    row = newer.wait(runs["failing"], 60)
    assert row["state"] == "failed"
    assert any("task 1: Exited with exit code 7" in evidence for evidence in row["evidence"])
    assert not newer.left(runs["failing"])


def test_cancel(newer: Any, runs: Any) -> None:
    newer.until(lambda: newer.log(runs["cancelled"]).count("started") == 2)
    newer.call("cancel", runs["cancelled"])
    assert newer.wait(runs["cancelled"], 60)["state"] == "cancelled"
    assert not newer.left(runs["cancelled"])


def test_what_sbatch_refuses(newer: Any) -> None:
    result = newer.call("launch", *POINT, "--set=cluster.partition=nowhere", check=False)
    assert result.returncode == 3
    assert "invalid partition" in result.stderr


def test_status_while_slurmctld_is_down(newer: Any, runs: Any, switch: Any) -> None:
    newer.wait(runs["outage"], 60, "running")
    switch("down", "slurmctld")
    try:
        row = newer.status(runs["outage"])
        assert (row["state"], row["ended"]) == ("unknown", False)
    finally:
        switch("up", "slurmctld")
    (newer.runs / runs["outage"] / "go").touch()
    assert newer.wait(runs["outage"], 90)["state"] == "incomplete"


def test_the_time_limit(newer: Any, runs: Any) -> None:
    assert newer.wait(runs["limit"], 180)["state"] == "timeout"
    assert not newer.left(runs["limit"])
