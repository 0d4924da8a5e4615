"""Slurm's words, from stand-ins that print what squeue and sacct print: cases a healthy cluster does not show."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FakeSlurm

from benchrun import paths
from benchrun.errors import SchedulerUnavailable
from benchrun.jobs.create import create
from benchrun.jobs.launcher import observe, write_env
from benchrun.jobs.scheduler import Job, Phase
from benchrun.jobs.slurm import Slurm
from benchrun.jobs.slurm_text import SACCT, jobs
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.folder import RunDir


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def test_the_first_node_of_a_long_list_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = render(resolve(Request("llama3.1-8b", "H100", "fp8", 8)))["job.sh"]
    line = next(line for line in job.splitlines() if line.startswith("MASTER_ADDR="))
    script(tmp_path / "scontrol", "seq --format=gpu-node-%05.0f 1 20000\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command = ["bash", "-c", f'set -euo pipefail\nSLURM_JOB_NODELIST=x\n{line}\necho "$MASTER_ADDR"']
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "gpu-node-00001\n")


def test_srun_is_told_the_cpus_of_a_rank_as_sbatch_is() -> None:
    overrides = ("cluster.cpus_per_task=14", "cluster.binding.cpu_bind=cores")
    job = render(resolve(Request("llama3.1-8b", "H100", "fp8", 8, overrides=overrides)))["job.sh"]
    lines = [line for line in job.splitlines() if "--cpus-per-task=14" in line]
    assert [line.partition(" ")[0] for line in lines] == ["#SBATCH", "step"]  # which calls srun
    assert "--cpu-bind=cores" in lines[1]


def poll(run: RunDir) -> Job:
    return Slurm().poll([run])[run]


def test_squeue_says_where_and_why(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    first, second = make("7"), make("8")
    slurm.queue(first, "7", state="PENDING", why="Resources", nodes="")
    slurm.queue(second, "8", nodes="n[1-2]")
    jobs = Slurm().poll([first, second])
    assert (jobs[first].phase, jobs[first].reason) == (Phase.PENDING, "Resources")
    assert (jobs[second].phase, jobs[second].reason, jobs[second].nodes) == (Phase.RUNNING, "", "n[1-2]")


def test_sacct_gives_the_exit_code_of_a_job_that_squeue_still_lists(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    slurm.queue(run, state="FAILED", why="NonZeroExitCode")
    slurm.account(run, state="FAILED", code="3:0")
    assert (poll(run).phase, poll(run).exit_code) == (Phase.ENDED, 3)


def test_sacct_says_who_ended_a_job_and_when(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    slurm.account(run, state="CANCELLED by 1000", code="0:15", end="2026-01-01T10:00:00")
    assert (poll(run).state, poll(run).reason, poll(run).signal) == ("CANCELLED", "CANCELLED by 1000", 15)
    assert time.localtime(poll(run).ended_at)[:4] == (2026, 1, 1, 10)


def test_sacct_counts_the_lives_of_a_job() -> None:
    (job,) = jobs("7|COMPLETED|0:0|n1|None|2026-01-01T09:00:00|2026-01-01T10:00:00|0|2|/runs/a|b\n", SACCT)
    assert (job.restarts, job.work_dir) == (2, "/runs/a|b")


def test_a_state_that_no_manual_lists_is_no_end_while_the_job_is_queued(
    slurm: FakeSlurm, make: Callable[..., Any]
) -> None:
    run = make()
    slurm.queue(run, state="DANCING")
    assert (poll(run).phase, poll(run).state) == (Phase.RUNNING, "DANCING")


@pytest.mark.parametrize(
    ("state", "phase"), [("RUNNING", Phase.RUNNING), ("PENDING", Phase.PENDING), ("DANCING", Phase.RUNNING)]
)
def test_a_job_that_accounting_calls_alive_is_alive_although_the_queue_does_not_list_it(
    slurm: FakeSlurm, make: Callable[..., Any], state: str, phase: Phase
) -> None:
    run = make()
    slurm.account(run, state=state)
    assert poll(run).phase is phase
    assert poll(run).reason


def test_a_job_that_wrote_its_own_end_is_not_running_whatever_accounting_says(
    slurm: FakeSlurm, make: Callable[..., Any]
) -> None:
    run = make()
    slurm.account(run, state="RUNNING")
    run.write_json("done.json", {"schema_version": 1, "exit_code": 0, "signal": None, "restarts": 0, "job_id": "7"})
    assert poll(run).phase is Phase.GONE


def test_accounting_that_lags_behind_does_not_undo_an_end(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make()
    slurm.queue(run, state="NODE_FAIL")
    slurm.account(run, state="RUNNING")
    assert (poll(run).phase, poll(run).state) == (Phase.ENDED, "NODE_FAIL")


def test_no_answer_is_an_outage_not_an_end(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    slurm.answer("squeue", err="slurm_load_jobs error: Unable to contact slurm controller (connect failure)", code=1)
    with pytest.raises(SchedulerUnavailable, match="Unable to contact"):
        poll(make())


def test_the_shells_own_filters_hide_no_job(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = make()
    monkeypatch.setenv("SQUEUE_USERS", "somebody")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    script(tmp_path / "squeue", f'[ -n "$SQUEUE_USERS" ] || echo "7|RUNNING|0|None|n1|N/A|{run.path}"\n')
    assert poll(run).phase is Phase.RUNNING


def test_a_job_that_only_its_own_file_remembers_is_found_there(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make(job=None)
    run.write_json("done.json", {"schema_version": 1, "exit_code": 0, "signal": None, "restarts": 0, "job_id": "7"})
    observation = observe([run])[0]
    assert (observation.over, observation.job.id, observation.job.phase) == (True, "7", Phase.GONE)
    assert run.job_id == "7"


def test_a_copy_without_git_believes_what_it_is_told_of_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = resolve(Request("tiny-llama", precision="fp32", num_gpus=1))
    run = create(tmp_path, spec, {"spec.json": spec.model_dump_json()})
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setenv("BENCHRUN_COMMIT", "e7b79bc")
    write_env(run)
    assert run.read_json("env.json")["commit"] == "e7b79bc"
