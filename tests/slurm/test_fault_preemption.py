"""Endings that a site's policy makes: a job gives way to a more urgent one."""

from typing import Any

import pytest

pytestmark = pytest.mark.thorough

LAST = ("cluster.nodelist=n3", "cluster.exclusive=true")
SLEEP = 'echo "life ${SLURM_RESTART_COUNT:-0}"; [ -n "$SLURM_RESTART_COUNT" ] || exec sleep 600'


@pytest.mark.parametrize("partition", ["scavenger", "restart"])
def test_preemption(user: Any, partition: Any) -> None:
    run = user.program("tiny-llama", 1, SLEEP, f"cluster.partition={partition}", *LAST)
    user.until(lambda: "life 0" in user.log(run))
    job = user.status(run)["job"]
    if partition == "restart":  # a script asks for no restart; a site may bring it about all the same
        user.slurm("scontrol", "update", f"jobid={job}", "requeue=1")
    urgent = user.program("tiny-llama", 1, "echo first; exit 5", "cluster.partition=urgent", *LAST)
    assert user.wait(urgent, 90)["state"] == "failed"
    if partition == "restart":
        assert user.wait(run, 60, "pending")["ended"] is False
        user.slurm("scontrol", "update", f"jobid={job}", "starttime=now")
        row = user.wait(run, 180)
        assert (row["state"], row["job"]) == ("requeued", job)
        assert "life 1" in user.log(run)
    else:
        assert user.wait(run, 60)["state"] == "preempted"
    assert not user.left(run)
