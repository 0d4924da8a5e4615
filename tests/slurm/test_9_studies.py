"""A study under a real Slurm: two runs at a time, a launcher killed with SIGKILL, a run that fails once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .conftest import User

STEPS = (
    "import sys, time\n"
    "for n in range(1, 13):\n"
    "    print(f' iteration {n:8d}/      12 | consumed samples: 1 | elapsed time per iteration (ms): {90 + n}.0 |"
    " global batch size:     8 | lm loss: 2.0E+00 | number of nan iterations:   0 |', flush=True)\n"
    "    time.sleep(0.2)\n"
)


def study(user: User, name: str, text: str, values: list[int]) -> Path:
    """A study of as many points, whose ranks run a few lines of shell."""
    sets = {"cluster.python": str(user.script(text)), "training.steps": 12}
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1, "set": sets}
    path = user.runs.parent / f"{name}.yaml"
    path.write_text(json.dumps({"description": name, "runs": [run], "matrix": {"training.seed": values}}))
    return path


def printing(user: User) -> str:
    """A line of shell that prints twelve steps."""
    path = user.runs.parent / "steps.py"
    path.write_text(STEPS)
    return f"exec {sys.executable} {path}"


def watched(user: User, launcher: "subprocess.Popen[str]", jobs: set[str], seconds: float = 120) -> int:
    """The most jobs in the queue at once until the launcher ends; ``jobs`` gets the ids of all of them."""
    most, until = 0, time.monotonic() + seconds
    while launcher.poll() is None and time.monotonic() < until:
        rows = user.slurm("squeue", "--noheader", "--states=PD,R,CG", "--format=%i %j").splitlines()
        own = {row.split()[0] for row in rows if (user.runs / row.split()[1]).exists()}
        jobs |= own
        most = max(most, len(own))
        time.sleep(0.3)
    return most


def launch(user: User, path: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchrun", "study", str(path), "--cluster=slurm-cpu", *options]
    launcher = subprocess.Popen(command, env=user.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    user.launchers.append(launcher)
    return launcher


def test_two_at_a_time_and_killed_in_the_middle(user: Any) -> None:
    path = study(user, "pairs", printing(user), [1, 2, 3, 4, 5])
    jobs: set[str] = set()
    first = launch(user, path, "--concurrency=2")
    assert first.stderr
    for line in first.stderr:
        if "point 3 of 5" in line:
            break
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    second = launch(user, path, "--concurrency=2", "--json")
    assert watched(user, second, jobs) <= 2
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    found = json.loads(out)
    assert [(point["state"], point["measured"], len(point["runs"])) for point in found["points"]] == [
        ("completed", 1, 1)
    ] * 5
    runs = [run for point in found["points"] for run in point["runs"]]
    assert all(len(user.jobs(run)) == 1 for run in runs)
    assert found["points"][0]["metrics"]["step_time_s"] > 0.09


def test_a_run_that_fails_once_is_launched_again(user: Any) -> None:
    flag = user.runs.parent / "failed-once"
    text = f"mkdir {flag} 2>/dev/null && exit 9\n{printing(user)}"
    path = study(user, "flaky", text, [1, 2])
    launcher = launch(user, path, "--concurrency=1", "--retries=1", "--json")
    out, err = launcher.communicate(timeout=180)
    assert launcher.returncode == 0, err
    found = json.loads(out)
    assert [len(point["runs"]) for point in found["points"]] == [2, 1]
    assert [point["state"] for point in found["points"]] == ["completed", "completed"]
