"""``benchrun study`` as a user calls it: real trainings on this machine, a launcher that is killed, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S

from benchrun.rundir.find import find_runs

pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")
pytestmark = pytest.mark.train


def command(folder: Path, *args: str) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "benchrun", "study", *args], {**os.environ, "BENCHRUN_RESULTS": str(folder)}


def call(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    words, env = command(folder, *args)
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.mark.thorough
def test_a_study_that_is_killed_goes_on_and_runs_nothing_twice(tmp_path: Path) -> None:
    words, env = command(tmp_path, "tiny", "--concurrency", "1")
    launcher = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
    assert launcher.stderr
    for line in launcher.stderr:  # in the middle of the second training
        if "point 2 of 5" in line:
            break
    time.sleep(1)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.communicate()
    again = call(tmp_path, "tiny", "--concurrency", "1", "--json")
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    states = [(point["state"], point["measured"], len(point["runs"])) for point in found["points"]]
    one = ("completed", 1, 1)
    assert states == [one, one, ("refused", 0, 0), ("refused", 0, 0), one]
    assert len(find_runs(tmp_path / "runs")) == 3
    assert (
        found["points"][4]["ratio"]["low"] < found["points"][4]["ratio"]["value"] < found["points"][4]["ratio"]["high"]
    )
    assert all(found["points"][number]["metrics"]["peak_memory_gib"] > 0.05 for number in (0, 1, 4))
    assert list(found)[:5] == ["schema_version", "study", "description", "directory", "columns"]
    keys = ["key", "settings", "baseline", "state", "reason", "runs", "measured", "hours", "metrics", "ratio"]
    keys.append("gpu_hours_used")
    assert all(list(point) == keys for point in found["points"])
    page = call(tmp_path, "tiny", "--report", "--format", "markdown", "--plot", str(tmp_path / "x.svg"))
    assert "data.num_workers 2" in (tmp_path / "x.svg").read_text()
    assert page.returncode == 0
    used = [found["points"][number]["gpu_hours_used"] for number in (0, 1, 4)]
    assert 0 < sum(used) < found["gpu_hours_limit"] and found["gpu_hours_used"] == pytest.approx(sum(used))
    file = tmp_path / "study.html"
    html = call(tmp_path, "tiny", "--report", "--output", str(file))
    assert (html.returncode, html.stdout) == (0, ""), html.stderr
    text = file.read_text()
    assert text.count("<details class=run ") == 3
    assert 'id="study"' in text and "Speed relative to the baseline" in text
    assert call(tmp_path, "tiny", "--report", "--output", str(file)).returncode == 2
    assert "| 5 | 4 | 0 | completed | 1 |" in page.stdout
    assert "- mbs 4 (data.num_workers 0): " in page.stdout
    status = subprocess.run([*words[:3], "status", "--json"], env=env, capture_output=True, text=True, check=True)
    assert [row["state"] for row in json.loads(status.stdout)] == ["completed"] * 3


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A study whose runs fail at once."""
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/bash\nexit 7\n")
    program.chmod(0o755)
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1, "set": {"cluster.python": str(program)}}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"description": "mine", "runs": [run], "matrix": {"mbs": [1, 2]}}))
    return path


def test_failed_runs_are_exit_code_4_and_are_retried(tmp_path: Path, mine: Path) -> None:
    result = call(tmp_path, str(mine), "--retries", "1", "--json")
    assert result.returncode == 4, result.stderr
    points: list[Any] = json.loads(result.stdout)["points"]
    assert [(point["state"], len(point["runs"])) for point in points] == [("failed", 2), ("failed", 2)]
    assert all("failed" in point["reason"] for point in points)


def test_dry_run_and_wrong_input(tmp_path: Path, mine: Path) -> None:
    result = call(tmp_path, str(mine), "--dry-run", "--json", "--price-per-gpu-hour", "3")
    assert result.returncode == 0
    found = json.loads(result.stdout)
    assert (found["runs"], found["price_per_gpu_hour"]) == (2, 3)
    assert not (tmp_path / "runs").exists()
    assert call(tmp_path, "no-such-study").returncode == 2
    mine.write_text("description: x\nruns: 7\n")
    wrong = call(tmp_path, str(mine))
    assert (wrong.returncode, f"{mine}:2" in wrong.stderr) == (2, True)
