"""A run that a node's failure ended is launched again elsewhere; a run that fails by itself is not."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

POINT = ("tiny-llama", "--precision=fp32", "--num-gpus=1", "--cluster=slurm-cpu")


def launch(user: Any, text: str, *options: str) -> subprocess.Popen[str]:
    """``launch --retries`` of a program that runs in Python's place."""
    command = [sys.executable, "-m", "benchrun", "launch", *POINT, f"--set=cluster.python={user.script(text)}"]
    launcher = subprocess.Popen(
        [*command, *options], env=user.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    user.launchers.append(launcher)
    return launcher


def events(user: Any, run: str, kind: str) -> list[dict]:
    lines = map(json.loads, (user.runs / run / "events.jsonl").read_text().splitlines())
    return [event for event in lines if event["event"] == kind]


@pytest.mark.thorough
def test_a_run_whose_node_failed_runs_again_on_another(user: Any, cluster: Callable[..., None], tmp_path: Path) -> None:
    marker = tmp_path / "started-once"
    program = f"[ ! -e {marker} ] || {{ echo second; exit 0; }}\ntouch {marker}\necho first\nexec sleep 600"
    launcher = launch(user, program, "--retries=2", "--set=cluster.nodelist=null")
    first = launcher.stdout.readline().strip()
    user.until(lambda: "first" in user.log(first))
    node = user.status(first)["nodes"]
    cluster("fail", node)
    try:
        _, err = launcher.communicate(timeout=150)
    finally:
        cluster("restore", node)
    assert "launched again" in err
    (retried,) = events(user, first, "retried")
    assert retried["excluded"] == [node]
    assert user.status(first)["state"] == "node_failure"
    second = retried["run"]
    assert f"launched again as {second}" in err
    assert f"#SBATCH --exclude={node}\n" in (user.runs / second / "job.sh").read_text()
    assert "second" in user.log(second)
    assert events(user, second, "retried") == []  # it made no step, which is its own fault


def test_a_program_that_fails_is_not_launched_again(user: Any) -> None:
    before = {path.name for path in user.runs.iterdir()}
    launcher = launch(user, "echo broken >&2\nexit 7", "--retries=3")
    _, err = launcher.communicate(timeout=120)
    (run,) = {path.name for path in user.runs.iterdir()} - before
    assert user.status(run)["state"] == "failed"
    assert events(user, run, "retried") == []
    assert "launched again" not in err
    assert launcher.returncode == 4
