"""Parts of the cluster go away: a scheduler that does not answer says nothing about the jobs."""

from __future__ import annotations

import json
import time

BRIEF = "echo started; exec sleep 8"
SLEEP = "echo started; exec sleep 600"


def test_slurmctld_down_while_polling_is_no_ending(user, cluster):
    run = user.program("tiny-llama", 1, BRIEF)
    user.wait(run, 60, "running")
    cluster("down", "slurmctld")
    try:
        row = user.status(run)
        assert (row["state"], row["ended"]) == ("unknown", False)
        assert "does not answer" in row["note"]
    finally:
        cluster("up", "slurmctld")
    assert user.wait(run, 90)["state"] == "incomplete"  # it ended well, without the planned steps


def test_slurmdbd_down_the_queue_and_the_jobs_own_files_are_enough(user, cluster):
    cluster("down", "slurmdbd")
    try:
        failing = user.program("tiny-llama", 1, "exit 5")
        row = user.wait(failing, 60)
        assert (row["state"], row["exit_code"]) == ("failed", 5)
    finally:
        cluster("up", "slurmdbd")


def test_a_job_that_nobody_knows_is_lost_after_a_grace_never_running(user):
    run = user.program("tiny-llama", 1, SLEEP)
    user.call("cancel", run)
    user.wait(run, 60)
    path = user.runs / run
    for name in ("done.json", "ending.json"):
        (path / name).unlink(missing_ok=True)
    forgotten = json.dumps({"time": "2026-01-01T00:00:00Z", "event": "submitted", "job": "987654"})
    path.joinpath("events.jsonl").write_text(forgotten + "\n")
    row = user.status(run)
    assert (row["state"], row["ended"]) == ("gone", False)
    row = user.wait(run, 120)
    assert row["state"] == "lost"


def test_a_node_that_loses_power(user, cluster):
    run = user.program("tiny-llama", 2, SLEEP, "cluster.gpus_per_node=1", "cluster.nodelist=n3")
    user.wait(run, 60, "running")
    time.sleep(1)
    cluster("fail", "n3")
    try:
        row = user.wait(run, 120)
        assert row["state"] == "node_failure"
        assert any("NODE_FAIL" in evidence for evidence in row["evidence"])
    finally:
        cluster("restore", "n3")
