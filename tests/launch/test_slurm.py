"""Slurm's words, from stand-ins that print what squeue and sacct print: cases a healthy cluster does not show."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from benchrun import paths
from benchrun.errors import SchedulerUnavailable
from benchrun.launch.env import write_env
from benchrun.launch.launcher import observe
from benchrun.launch.rundir import create
from benchrun.launch.scheduler import Phase
from benchrun.launch.slurm import Slurm
from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request
from benchrun.render import render


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Give Slurm's commands a text to print, and an exit code."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(command, *lines, code=0):
        text = "".join(f"printf '%s\\n' '{line}' >&{2 if code else 1}\n" for line in lines)
        script(folder / command, f"{text}exit {code}\n")

    put("squeue")
    put("sacct")
    return put


@pytest.fixture
def run(tmp_path):
    """A run whose launcher died before it wrote down the job's id."""
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", ()))
    return create(tmp_path / "runs", spec, {"spec.json": spec.model_dump_json()})


def test_the_first_node_of_a_long_list_is_found(tmp_path, monkeypatch):
    job = render(resolve(Request("llama3.1-8b", "H100", "fp8", 8)))["job.sh"]
    line = next(line for line in job.splitlines() if line.startswith("MASTER_ADDR="))
    script(tmp_path / "scontrol", "seq --format=gpu-node-%05.0f 1 20000\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command = ["bash", "-c", f'set -euo pipefail\nSLURM_JOB_NODELIST=x\n{line}\necho "$MASTER_ADDR"']
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "gpu-node-00001\n")


def test_srun_is_told_the_cpus_of_a_rank_as_sbatch_is():
    overrides = ("cluster.cpus_per_task=14", "cluster.binding.cpu_bind=cores")
    job = render(resolve(Request("llama3.1-8b", "H100", "fp8", 8, overrides=overrides)))["job.sh"]
    lines = [line for line in job.splitlines() if "--cpus-per-task=14" in line]
    assert [line.partition(" ")[0] for line in lines] == ["#SBATCH", "step"]  # which calls srun
    assert "--cpu-bind=cores" in lines[1]


def poll(job="7"):
    return Slurm().poll([job])[job]


def test_squeue_says_where_and_why(says):
    says("squeue", "7|PENDING|Resources|", "8|RUNNING|None|n[1-2]")
    jobs = Slurm().poll(["7", "8"])
    assert (jobs["7"].phase, jobs["7"].reason) == (Phase.PENDING, "Resources")
    assert (jobs["8"].phase, jobs["8"].reason, jobs["8"].nodes) == (Phase.RUNNING, "", "n[1-2]")


def test_sacct_gives_the_exit_code_of_a_job_that_squeue_still_lists(says):
    says("squeue", "7|FAILED|NonZeroExitCode|n1")
    says("sacct", "7|FAILED|3:0|n1|None|2026-01-01T10:00:00|0")
    assert (poll().phase, poll().exit_code) == (Phase.ENDED, 3)


def test_sacct_counts_the_lives_of_a_job_and_says_when_it_ended(says):
    says("sacct", "7|CANCELLED by 1000|0:15|n1|None|2026-01-01T10:00:00|2")
    assert (poll().state, poll().reason, poll().signal) == ("CANCELLED", "CANCELLED by 1000", 15)
    assert poll().restarts == 2
    assert time.localtime(poll().ended_at)[:4] == (2026, 1, 1, 10)


def test_a_state_that_no_manual_lists_is_no_end_while_the_job_is_queued(says):
    says("squeue", "7|DANCING|None|n1")
    assert (poll().phase, poll().state) == (Phase.RUNNING, "DANCING")


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "DANCING"])
def test_a_job_that_the_queue_dropped_is_not_running_whatever_accounting_says(says, state):
    says("sacct", f"7|{state}|0:0|n1|None|2026-01-01T10:00:00|0")
    assert poll().phase is Phase.GONE


def test_accounting_that_lags_behind_does_not_undo_an_end(says):
    says("squeue", "7|NODE_FAIL|None|n1")
    says("sacct", "7|RUNNING|0:0|n1|None|2026-01-01T10:00:00|0")
    assert (poll().phase, poll().state) == (Phase.ENDED, "NODE_FAIL")


def test_no_answer_is_an_outage_not_an_end(says):
    says("squeue", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", code=1)
    with pytest.raises(SchedulerUnavailable, match="Unable to contact"):
        poll()


def test_the_shells_own_filters_hide_no_job(says, monkeypatch, tmp_path):
    monkeypatch.setenv("SQUEUE_USERS", "somebody")
    script(tmp_path / "bin" / "squeue", '[ -n "$SQUEUE_USERS" ] || echo "7|RUNNING|None|n1"\n')
    assert poll().phase is Phase.RUNNING


def test_a_job_that_only_its_own_file_remembers_is_found_there(says, run):
    run.write_json("done.json", {"schema_version": 1, "exit_code": 0, "signal": None, "restarts": 0, "job_id": "7"})
    observation = observe([run])[0]
    assert (observation.over, observation.job.id, observation.job.phase) == (True, "7", Phase.GONE)
    assert run.last_event("submitted")["job"] == "7"


def test_a_copy_without_git_believes_what_it_is_told_of_its_commit(tmp_path, monkeypatch):
    spec = resolve(Request("tiny-llama", precision="fp32", num_gpus=1))
    run = create(tmp_path, spec, {"spec.json": spec.model_dump_json()})
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("BENCHRUN_COMMIT", "e7b79bc")
    write_env(run)
    assert run.read_json("env.json")["commit"] == "e7b79bc"
