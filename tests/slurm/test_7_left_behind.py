"""When a run has ended, however it ended, no process of it is alive on any node."""

from __future__ import annotations

import pytest

# A rank that ignores what Slurm asks first, with a child of its own in a session of its own, as a data loader may have.
STUBBORN = "trap '' TERM; setsid sleep 600 & echo started; while :; do sleep 1; done"
HERE = "cluster.exclude=n3"
TWO = ("cluster.gpus_per_node=1", HERE)


@pytest.fixture(scope="module")
def runs(user):
    """Run ids by what is to happen to them."""
    failing = f'[ "$RANK" = 1 ] || {{ {STUBBORN}; }}; sleep 3; exit 7'
    return {
        "cancelled": user.program("tiny-llama", 2, STUBBORN, *TWO),
        "failed": user.program("tiny-llama", 2, failing, *TWO),
        "timeout": user.program("tiny-llama", 2, STUBBORN, *TWO, "cluster.time_limit=00:01:00"),
        "node_failure": user.program("tiny-llama", 2, STUBBORN, "cluster.gpus_per_node=1", "cluster.nodelist=n3"),
    }


def test_of_a_cancelled_run(user, runs):
    user.until(lambda: user.log(runs["cancelled"]).count("started") == 2)
    alive = user.left(runs["cancelled"], grace_s=0)
    assert {line.partition(":")[0] for line in alive} == {"n1", "n2"}
    assert sum("sleep 600" in line for line in alive) == 2
    user.call("cancel", runs["cancelled"])
    assert user.wait(runs["cancelled"], 60)["state"] == "cancelled"
    assert not user.left(runs["cancelled"])


def test_of_a_run_of_which_one_rank_failed(user, runs):
    assert user.wait(runs["failed"], 90)["state"] == "failed"
    assert not user.left(runs["failed"])


def test_of_a_run_whose_node_lost_power(user, runs, cluster):
    user.until(lambda: "started" in user.log(runs["node_failure"]))
    cluster("fail", "n3")
    try:
        assert user.wait(runs["node_failure"], 120)["state"] == "node_failure"
    finally:
        cluster("restore", "n3")
    assert not user.left(runs["node_failure"])


def test_of_a_run_that_met_its_time_limit(user, runs):
    assert user.wait(runs["timeout"], 180)["state"] == "timeout"
    assert not user.left(runs["timeout"])
