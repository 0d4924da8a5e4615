"""A site beside its jobs: limits, a prolog that fails, an epilog that hangs, a controller that lost its state."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import CLUSTER, POINT, User

SLEEP = "echo started; exec sleep 600"
FEW = "benchrun_few"


@pytest.fixture(scope="module")
def site(user: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder: the prolog fails on a node that has a file of its name there, the epilog hangs while `hang` is there.

    The account FEW may have one job.
    """
    folder = tmp_path_factory.mktemp("site")
    for name, text in {
        "prolog": f'[ ! -e "{folder}/$(uname -n)" ]',
        "epilog": f"while [ -e {folder}/hang ]; do sleep 0.2; done",
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    conf = user.cluster / "etc" / "slurm.conf"
    before = conf.read_text(encoding="utf-8")
    lines = ("AccountingStorageEnforce=limits", f"Prolog={folder}/prolog", f"Epilog={folder}/epilog")
    conf.write_text(before + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    user.slurm("sacctmgr", "-i", "add", "account", FEW, "maxsubmitjobs=1")
    user.slurm("sacctmgr", "-i", "add", "user", "root", f"account={FEW}")
    _restart(user)
    yield folder
    (folder / "hang").unlink(missing_ok=True)
    user.slurm("sacctmgr", "-i", "delete", "user", "root", f"account={FEW}")
    user.slurm("sacctmgr", "-i", "delete", "account", FEW)
    conf.write_text(before, encoding="utf-8")
    _restart(user)


def _restart(user: Any) -> None:
    """Let controller and nodes read slurm.conf again."""
    user.slurm(str(CLUSTER), "down", "slurmctld")
    user.slurm(str(CLUSTER), "up", "slurmctld")
    user.slurm("scontrol", "reconfigure")


def test_runs_beyond_a_limit_follow_one_after_the_other_and_all_are_judged(user: Any, site: Path) -> None:
    options = (f"--set=cluster.account={FEW}", f"--set=cluster.python={user.script('exit 5')}")
    result = user.call("launch", *POINT, *options, "--repeats=2", "--wait", check=False)
    runs = [line for line in result.stdout.splitlines() if (user.runs / line / "spec.json").exists() and line]
    assert result.returncode == 4
    assert [row["state"] for row in user.rows(*runs)] == ["failed", "failed"]


def test_a_failed_prolog_is_the_node_s_failure(user: Any, site: Path) -> None:
    (site / "n2").touch()
    try:
        run = user.program("tiny-llama", 1, SLEEP, "cluster.nodelist=n2")
        row = user.wait(run, 60, "node_failure", "cancelled", "launch_failed")
        assert row["state"] == "node_failure"
    finally:
        (site / "n2").unlink()
        user.slurm("scontrol", "update", "nodename=n2", "state=resume")


def test_a_hanging_epilog_holds_no_launcher(user: Any, site: Path) -> None:
    (site / "hang").touch()
    launcher, run = user.follow("exit 5")
    launcher.communicate(timeout=120)
    assert launcher.returncode == 4
    assert user.slurm("squeue", "--noheader", "--format=%T", f"--name={run}").split() == ["COMPLETING"]
    (site / "hang").unlink()


def test_a_job_whose_results_folder_was_moved_is_found_and_stopped(user: Any, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    here = User(user.env["SLURM_CONF"], tmp_path / "before")
    run = here.program("tiny-llama", 1, SLEEP)
    here.until(lambda: "started" in here.log(run))
    job = here.status(run)["job"]
    shutil.move(tmp_path / "before", tmp_path / "after")
    moved = User(user.env["SLURM_CONF"], tmp_path / "after")
    assert (moved.status(run)["state"], moved.status(run)["job"]) == ("running", job)
    moved.call("cancel", run)
    assert moved.wait(run, 60)["state"] == "cancelled"


def _remove_state(user: Any) -> None:
    """Empty the directory in which the controller, which is down, keeps its state."""
    shutil.rmtree(user.cluster / "state")
    (user.cluster / "state").mkdir()


def test_a_controller_that_loses_its_state_is_no_person_who_cancels(user: Any, cluster: Any) -> None:
    run = user.program("tiny-llama", 1, SLEEP)
    user.until(lambda: "started" in user.log(run))
    # The controller tells accounting of new jobs every 5 s; until then its state alone has them.
    user.until(lambda: run in user.slurm("sacct", "-X", "--parsable2", "--format=JobName"))
    cluster("down", "slurmctld")
    _remove_state(user)
    cluster("up", "slurmctld")
    assert user.wait(run, 60)["state"] == "scheduler_failure"


@pytest.mark.thorough
def test_a_job_that_accounting_never_knew_is_lost_with_the_state(user: Any, cluster: Any) -> None:
    cluster("down", "slurmdbd")
    run = user.program("tiny-llama", 1, SLEEP)
    user.until(lambda: "started" in user.log(run))
    assert user.status(run)["state"] == "running"
    cluster("down", "slurmctld")
    _remove_state(user)
    cluster("up", "slurmdbd")
    cluster("up", "slurmctld")
    row = user.wait(run, 120)
    assert (row["state"], row["final"]) == ("lost", False)
    assert not (user.runs / run / "ending.json").exists()
