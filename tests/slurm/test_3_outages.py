"""Parts of the cluster go away: a scheduler that does not answer says nothing about the jobs."""

from typing import Any

import pytest

from .conftest import POINT

UNTIL_GO = "echo started; until [ -e go ]; do sleep 0.2; done"
SLEEP = "echo started; exec sleep 600"


def test_slurmctld_down_while_polling_is_no_ending(user: Any, cluster: Any) -> None:
    run = user.program("tiny-llama", 1, UNTIL_GO)
    user.until(lambda: "started" in user.log(run))  # a job that is only dispatched is lost with its controller
    cluster("down", "slurmctld")
    try:
        row = user.status(run)
        assert (row["state"], row["ended"]) == ("unknown", False)
        assert "does not answer" in row["note"]
    finally:
        cluster("up", "slurmctld")
    (user.runs / run / "go").touch()
    assert user.wait(run, 180)["state"] == "incomplete"  # it ended well, without the planned steps


@pytest.mark.thorough
def test_launch_wait_goes_on_through_an_outage(user: Any, cluster: Any) -> None:
    launcher, run = user.follow(UNTIL_GO)
    user.until(lambda: "started" in user.log(run))
    cluster("down", "slurmctld")
    try:
        assert any("does not answer" in line for line in launcher.stderr)  # reads on until it says so
        launch = user.call("launch", *POINT, check=False)
        cancel = user.call("cancel", run, check=False)
        assert (launch.returncode, cancel.returncode) == (3, 3)
        assert "Unable to contact slurm controller" in launch.stderr
    finally:
        cluster("up", "slurmctld")
    (user.runs / run / "go").touch()
    said, _ = launcher.communicate(timeout=120)
    assert launcher.returncode == 4
    assert "incomplete" in said


def test_slurmdbd_down_the_queue_and_the_jobs_own_files_are_enough(user: Any, cluster: Any) -> None:
    cluster("down", "slurmdbd")
    try:
        failing = user.program("tiny-llama", 1, "exit 5")
        row = user.wait(failing, 60)
        assert (row["state"], row["exit_code"]) == ("failed", 5)
    finally:
        cluster("up", "slurmdbd")


def test_a_node_that_loses_power(user: Any, cluster: Any) -> None:
    run = user.program("tiny-llama", 2, SLEEP, "cluster.gpus_per_node=1", "cluster.nodelist=n3")
    user.until(lambda: "started" in user.log(run))
    cluster("fail", "n3")
    try:
        row = user.wait(run, 120)
        assert row["state"] == "node_failure"
        assert any("NODE_FAIL" in evidence for evidence in row["evidence"])
    finally:
        cluster("restore", "n3")
