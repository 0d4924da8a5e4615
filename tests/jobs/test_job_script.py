"""What a job script does by itself: how it records a signal, what it takes from a job around it, how it counts time."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from calling import DEADLINE_S

from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

ENDING = [number for number in range(1, 65) if number not in (4, 7, 8, 9, 11, *range(17, 24), 28, 32, 33)]
"""Numbers of the signals that end a program."""


def scripts(folder: Path, program: str, *overrides: str, cluster: str = "local") -> Path:
    """The files of a job of one rank whose Python is these lines of shell."""
    python = folder / "python"
    python.write_text(f"#!/bin/bash\n{program}\n", encoding="utf-8")
    python.chmod(0o755)
    words = (f"cluster.python={python}", *overrides)
    for name, text in render(resolve(Request("tiny-llama", "CPU", "fp32", 1, None, cluster, words))).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "probe.sh").write_text("", encoding="utf-8")
    return folder


def job(folder: Path, **env: str) -> subprocess.Popen[bytes]:
    with (folder / "stdout.log").open("ab") as out, (folder / "stderr.log").open("ab") as err:
        return subprocess.Popen(["bash", "job.sh"], cwd=folder, stdout=out, stderr=err, env={**os.environ, **env})


def done(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    return document


def printed(folder: Path, text: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while text not in (folder / "stdout.log").read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("number", [*map(int, (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGTERM)), 40])
def test_a_signal_to_the_script_is_recorded(tmp_path: Path, number: int) -> None:
    process = job(scripts(tmp_path, "echo started; sleep 1"))
    printed(tmp_path, "started")
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == 128 + number
    name = subprocess.run(["bash", "-c", f"kill -l {number}"], capture_output=True, encoding="utf-8", check=True)
    assert (done(tmp_path)["exit_code"], done(tmp_path)["signal"]) == (128 + number, name.stdout.strip())


def test_every_signal_that_ends_a_program_has_a_trap(tmp_path: Path) -> None:
    text = (scripts(tmp_path, "exit 0") / "job.sh").read_text(encoding="utf-8")
    (traps,) = re.findall(r"^ended\(\).*?^done$", text, re.MULTILINE | re.DOTALL)
    listed = subprocess.run(["bash", "-c", f"{traps}\ntrap -p"], capture_output=True, encoding="utf-8", check=True)
    trapped = [int(shlex.split(line)[2].split()[1]) for line in listed.stdout.splitlines() if "ended" in line]
    assert sorted(trapped) == ENDING


def test_a_local_job_takes_nothing_from_the_job_around_it(tmp_path: Path) -> None:
    around = {"SLURM_RESTART_COUNT": "1", "SLURM_JOB_ID": "77", "RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "n1"}
    process = job(scripts(tmp_path, "env | grep -E '^(SLURM_|RANK|WORLD_SIZE|MASTER_)'; exit 0"), **around)
    assert process.wait(DEADLINE_S) == 0
    own = {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0"}
    assert set((tmp_path / "stdout.log").read_text(encoding="utf-8").split()) == own
    assert done(tmp_path)["restarts"] == 0
    assert done(tmp_path)["job_id"] != "77"


def test_a_suspended_job_is_not_hung(tmp_path: Path) -> None:
    """All of its processes stand still for longer than the deadline, then go on."""
    run = scripts(tmp_path, "echo started; sleep 3; exit 5", "cluster.step_deadline_s=8")
    with (run / "stdout.log").open("ab") as out, (run / "stderr.log").open("ab") as err:
        process = subprocess.Popen(["bash", "job.sh"], cwd=run, stdout=out, stderr=err, start_new_session=True)
    printed(tmp_path, "started")
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(10)
    os.killpg(process.pid, signal.SIGCONT)
    assert process.wait(DEADLINE_S) == 5
    assert done(tmp_path)["no_step_s"] is None


def test_steps_get_the_whole_environment_and_no_limits_of_the_shell(tmp_path: Path) -> None:
    text = (scripts(tmp_path, "exit 0", cluster="slurm-cpu") / "job.sh").read_text(encoding="utf-8")
    assert "#SBATCH --propagate=NONE\n" in text
    steps = re.findall(r"^[^#\n]*\bsrun .*", text, re.MULTILINE)
    assert steps and all("srun --export=ALL " in line for line in steps)
