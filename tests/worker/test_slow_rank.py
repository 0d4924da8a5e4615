"""A slow rank is named by the times that ranks measure themselves; the step time is the same on all."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.train, pytest.mark.thorough]
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

SLOW = 2
STOPPER = f"""
import os, pathlib, signal, time
if os.environ.get("RANK") == "{SLOW}":
    # A process beside the rank takes three quarters of its time, as a neighbour on its core would, once it trains.
    rank = os.getpid()
    if os.fork() == 0:
        log = pathlib.Path("stdout.log")
        while os.getppid() == rank:
            time.sleep(0.01)
            if log.exists() and "benchrun config" in log.read_text():
                os.kill(rank, signal.SIGSTOP)
                time.sleep(0.03)
                os.kill(rank, signal.SIGCONT)
        os._exit(0)
"""


def benchrun(*args: str, **env: str) -> Any:
    command = [sys.executable, "-m", "benchrun", *args]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=["tp", "dp"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Four ranks of which one is slow, as two pairs that split each layer, or with all of the model each."""
    folder = tmp_path_factory.mktemp("slow")
    (folder / "sitecustomize.py").write_text(STOPPER)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    env = {"BENCHRUN_RESULTS": str(folder), "PYTHONPATH": path}
    sets = ["training.steps=12", *(["layout.tp=1", "layout.sequence_parallel=false"] if request.param == "dp" else [])]
    point = ["tiny-llama", "--precision=fp32", "--num-gpus=4", "--cluster=local", *(f"--set={each}" for each in sets)]
    result = benchrun("launch", *point, "--wait", **env)
    (run,) = (folder / "runs").glob("tiny-*")
    assert (run / "ranks.json").exists(), result.stdout + result.stderr
    return run, env


def test_it_is_named(run: tuple[Path, dict[str, str]]) -> None:
    folder, env = run
    slowest = json.loads((folder / "metrics.json").read_text())["ranks"]["slowest"]
    assert slowest["rank"] == SLOW
    assert slowest["host"] == os.uname().nodename
    assert slowest["steps_behind"] > 0.7
    assert slowest["behind_percent"] > 3
    summary = json.loads(benchrun("parse", str(folder), "--json", **env).stdout)
    assert summary["ranks"]["slowest"] == slowest
    assert summary["metrics"]["rank_spread_percent"] == slowest["behind_percent"]
    (row,) = json.loads(benchrun("status", folder.name, "--json", **env).stdout)
    assert row["slowest_rank"] == slowest
    assert f"rank {SLOW} on" in benchrun("report", folder.name, **env).stdout


def test_the_times_of_a_rank_are_the_step(run: tuple[Path, dict[str, str]]) -> None:
    """Compute and collectives of every rank add up to the same step, within what is between two lines of Python."""
    times = json.loads((run[0] / "ranks.json").read_text())
    assert times["steps"] == list(range(1, 13))
    logged = [json.loads(line)["step_time_s"] for line in (run[0] / "steps.jsonl").read_text().splitlines()]
    for rank in times["ranks"]:
        sums = [sum(pair) for pair in zip(rank["compute_time_s"], rank["collective_time_s"], strict=True)]
        assert sum(sums) == pytest.approx(sum(logged), rel=0.1)
