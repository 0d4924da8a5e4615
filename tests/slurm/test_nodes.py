"""A check of the nodes of a real Slurm: a node that another program slows is named, and only that one."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SLOW = "n2"
HOG = """
import os, pathlib, signal, sys, time

def ranks():
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"benchrun.worker.nodecheck" in (folder / "cmdline").read_bytes():
                yield int(folder.name)
        except OSError:
            pass

while not (busy := list(ranks())) or not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
os.nice(-15)  # this program must not wait for a core itself: the rank would run on
while any(map(os.path.exists, [f"/proc/{pid}" for pid in busy])):
    began = time.monotonic()
    for number in (signal.SIGCONT, signal.SIGSTOP):
        for pid in busy:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if number == signal.SIGCONT:
            time.sleep(0.005)
    time.sleep(min(1, 39 * (time.monotonic() - began)))
"""
"""A neighbour that has nearly all of the slow node's CPU time, once the check measures. A busy loop would not do: the
nodes of this cluster share the cores of one machine, and it would slow all of them."""


@pytest.fixture
def hog(user: Any, tmp_path: Path) -> Iterator[Path]:
    """Such a program on the slow node. Writing the file starts it."""
    (tmp_path / "hog.py").write_text(HOG)
    begin = tmp_path / "begin"
    pid = (user.cluster / f"run/node-{SLOW}.pid").read_text().split()[0]
    inside = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    command = ["nsenter", "--mount", "--pid", f"--target={inside}", sys.executable, tmp_path / "hog.py", begin]
    program = subprocess.Popen(command)
    yield begin
    program.terminate()
    program.wait()


def check(user: Any, begin: Path | None = None) -> tuple[int, dict]:
    """Exit code and report of a check of all nodes, with one rank each."""
    sets = ["cluster.gpus_per_node=1", "repeats=9"]
    return call(user, begin, "nodes", "slurm-cpu", "--json", *(f"--set={each}" for each in sets))


def call(user: Any, begin: Path | None, *words: str) -> tuple[int, dict]:
    """Exit code and JSON of a command that launches a check of nodes."""
    command = [sys.executable, "-m", "benchrun", *words]
    launched = subprocess.Popen(
        command, env=user.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=user.runs.parent
    )
    user.launchers.append(launched)
    run = next(line for line in launched.stderr if line.startswith("nodes-")).strip().partition(":")[0]
    if begin:
        user.until(lambda: "benchrun nodes: products" in user.log(run), 90)
        begin.touch()
    out, err = launched.communicate(timeout=300)
    assert out, err + user.log(run)
    return launched.returncode, json.loads(out)


def test_only_the_node_with_a_busy_neighbour_is_named_and_launch_leaves_it_out(user: Any, hog: Path) -> None:
    code, report = check(user, hog)
    assert code == 1, report
    assert {finding["host"] for finding in report["outliers"]} == {SLOW}
    assert report["exclude"] == [SLOW]
    assert report["missing"] == []
    run = user.runs / report["run_id"]
    assert (run / "exclude").read_text() == f"{SLOW}\n"
    assert user.call("nodes", "--run", report["run_id"], check=False).returncode == 1
    script = user.call(
        *("launch", "tiny-llama", "--precision=fp32", "--num-gpus=2", "--cluster=slurm-cpu", "--dry-run"),
        f"--exclude={run / 'exclude'}",
    ).stdout
    assert f"#SBATCH --exclude={SLOW}\n" in script


@pytest.mark.train
@pytest.mark.thorough
def test_a_slow_node_fails_an_acceptance_plan_also_where_its_pack_is_verified(
    user: Any, hog: Path, tmp_path: Path
) -> None:
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1, "set": {"cluster.gpus_per_node": 1}}
    document = {"description": "x", "cluster": "slurm-cpu", "runs": [run], "repeats": 1, "nodes_check": 3}
    path = tmp_path / "checked.yaml"
    path.write_text(json.dumps(document))
    pack = tmp_path / "pack"
    code, report = call(user, hog, "plan", str(path), "--pack", str(pack), "--json")
    criterion = report["criteria"][0]
    assert (code, report["verdict"]) == (1, "not_accepted"), report
    assert [host for host, (sound, _) in report["nodes"].items() if not sound] == [SLOW]
    assert (criterion["criterion"], criterion["measured"], criterion["passed"]) == ("nodes_check", 2, False)
    assert {each["passed"] for each in report["criteria"][1:]} == {True}
    (check,) = criterion["runs"]
    assert (user.runs / check / "exclude").read_text() == f"{SLOW}\n"
    assert user.status(check)["state"] == "completed"
    env = {name: value for name, value in user.env.items() if not name.startswith(("SLURM", "BENCHRUN"))}
    command = [sys.executable, "-m", "benchrun", "verify", str(pack), "--plan", str(path), "--json"]
    verified = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert verified.returncode == 1, verified.stdout + verified.stderr
    again = json.loads(verified.stdout)["acceptance"]
    assert (again["criteria"][0]["measured"], again["nodes"]["node2"][0]) == (2, False)


@pytest.mark.thorough
def test_a_sound_fleet_has_no_outlier(user: Any) -> None:
    code, report = check(user)
    assert (code, report["outliers"], report["exclude"], report["slow_pairs"]) == (0, [], [], [])
    assert report["nodes"] == ["n1", "n2", "n3"]
    assert {row["test"]: row["count"] for row in report["tests"]} == {"products": 3, "memory": 3, "exchange": 3}
    row = user.status(report["run_id"])
    assert row["state"] == "completed"


@pytest.mark.thorough
def test_an_excluded_node_is_not_measured(user: Any) -> None:
    time.sleep(1)  # the nodes of the job before are being cleaned
    result = user.call("nodes", "slurm-cpu", f"--exclude={SLOW}", "--json", "--set=repeats=3", check=False)
    report = json.loads(result.stdout)
    assert report["nodes"] == ["n1", "n3"]
    assert result.returncode == 0, report  # four ranks are enough to compare
