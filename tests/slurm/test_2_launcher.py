"""The launcher may die, and two may work at once: nothing is lost or overwritten."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .conftest import POINT

SLEEP = "echo started; exec sleep 600"


def test_two_launches_at_the_same_moment_make_two_runs(user: Any) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: user.launch("tiny-llama", 1, "cluster.partition=batch"), range(4)))
    assert len(set(runs)) == 4
    jobs = {user.status(run)["job"] for run in runs}
    assert len(jobs) == 4
    for run in runs:
        user.call("cancel", run)


def test_a_killed_launcher_loses_nothing(user: Any) -> None:
    launcher, run = user.follow(SLEEP)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    assert user.wait(run, 60, "running")["job"].isdigit()
    user.call("cancel", run)
    assert user.wait(run, 60)["state"] == "cancelled"


def test_a_launcher_killed_before_it_wrote_the_job_id_is_found_by_name(user: Any) -> None:
    run = user.program("tiny-llama", 1, SLEEP)
    events = user.runs / run / "events.jsonl"
    job = user.status(run)["job"]
    events.write_text(events.read_text().splitlines()[0] + "\n")
    assert user.wait(run, 60, "running")["job"] == job
    user.call("cancel", run)
    assert user.wait(run, 60)["state"] == "cancelled"


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(user: Any) -> None:
    launcher, run = user.follow(SLEEP)
    user.until(lambda: "started" in user.log(run))
    os.kill(launcher.pid, signal.SIGINT)
    _, said = launcher.communicate(timeout=30)
    assert launcher.returncode == 130
    assert "benchrun status" in said
    assert f"benchrun cancel {run}" in said
    assert user.status(run)["state"] == "running"
    user.call("cancel", run)


def test_what_sbatch_refuses_is_said_with_its_words_and_exit_code_3(user: Any) -> None:
    before = set(user.runs.iterdir())
    result = user.call("launch", *POINT, "--set=cluster.partition=nowhere", check=False)
    assert result.returncode == 3
    assert "invalid partition" in result.stderr
    (refused,) = set(user.runs.iterdir()) - before
    row = user.status(refused.name)
    assert (row["state"], row["ended"]) == ("launch_failed", True)


def test_a_recipe_field_reaches_the_program_as_text(user: Any, tmp_path: Path) -> None:
    nasty = "$(touch x); \"quote\" 'single' `id` \\ end"
    run = user.program("tiny-llama", 1, 'printf "%s\\n" "$NASTY"', f"env.NASTY={nasty}")
    user.wait(run, 60)
    assert nasty in (user.runs / run / "stdout.log").read_text().splitlines()
    assert not (user.runs / run / "x").exists()
    assert json.loads((user.runs / run / "spec.json").read_text())["env"]["NASTY"] == nasty
