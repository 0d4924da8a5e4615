"""Acceptance under a real Slurm: real trainings on one node and on two, packed, verified elsewhere, tampered with."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import User

pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")
pytestmark = [pytest.mark.train, pytest.mark.thorough]
CRITERIA = {
    "at_least": {"tokens_per_s_per_gpu": 1},
    "at_most": {"peak_memory_gib": 8},
    "max_spread_percent": 1000,
    "min_scaling_efficiency_percent": 0.01,
}


def plan_file(user: User) -> Path:
    """Two ranks on one node and four on two, twice each."""
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": [2, 4], "set": {"training.steps": 8}}
    document = {"description": "two nodes", "cluster": "slurm-cpu", "runs": [run], "repeats": 2, "criteria": CRITERIA}
    path = user.runs.parent / "twonodes.yaml"
    path.write_text(json.dumps(document))
    return path


def verify(pack: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Verify a pack in an empty folder without Slurm."""
    folder.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "BENCHRUN"))}
    command = [sys.executable, "-m", "benchrun", "verify", str(pack), "--json"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_plan_on_one_and_two_nodes_is_packed_verified_and_refused_when_changed(user: Any, tmp_path: Path) -> None:
    path, target = plan_file(user), tmp_path / "packed" / "evidence.tar.gz"
    words = ("plan", str(path), "--concurrency", "2", "--json")
    result = user.call(*words, "--pack", str(target), check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads(result.stdout)
    assert document["verdict"] == "accepted"
    assert [(p["num_nodes"], p["repeats"], len(p["runs"])) for p in document["points"]] == [(1, 2, 2), (2, 2, 2)]
    assert "min_scaling_efficiency_percent" in {each["criterion"] for each in document["criteria"]}
    jobs = [user.jobs(run) for point in document["points"] for run in point["runs"]]
    assert [len(each) for each in jobs] == [1, 1, 1, 1]
    verified = verify(target, tmp_path / "elsewhere")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["acceptance"]["criteria"] == document["criteria"]
    assert json.loads(verified.stdout)["digest"] == document["pack"]["digest"]
    assert list((tmp_path / "elsewhere").iterdir()) == []

    subprocess.run(["tar", "xzf", str(target)], cwd=tmp_path, check=True)
    (log, *_) = sorted((tmp_path / "evidence" / "runs").glob("*/stdout.log.xz"))
    text = lzma.decompress(log.read_bytes())
    nodes = [
        line for line in user.slurm("sinfo", "--noheader", "--Node", "--format=%n").split() if line.encode() in text
    ]
    assert nodes == []
    log.write_bytes(lzma.compress(text.replace(b"8", b"9", 1)))
    refused = verify(tmp_path / "evidence", tmp_path / "other")
    assert refused.returncode == 4
    assert [reason["kind"] for reason in json.loads(refused.stdout)["reasons"]] == ["changed_file"]
    again = user.call(*words, "--report", check=False)
    assert (again.returncode, json.loads(again.stdout)["criteria"]) == (0, document["criteria"])
