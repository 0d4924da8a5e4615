"""What a site, the submitting shell or an administrator does to a job: the job still runs, or says what was done."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selection import some

from .conftest import POINT, User

STEP = "iteration        1/      20 | consumed samples: 8 | elapsed time per iteration (ms): 5.0 | lm loss: 1.0E+00 |"
NAP = "echo started; exec sleep 600"


def done(user: User, run: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((user.runs / run / "done.json").read_text(encoding="utf-8"))
    return document


def on_node(user: User, node: str, command: str) -> None:
    """Run a line of shell in the mounts of a node."""
    unshare = (user.cluster / "run" / f"node-{node}.pid").read_text(encoding="utf-8").split()[0]
    first = Path(f"/proc/{unshare}/task/{unshare}/children").read_text(encoding="utf-8").split()[0]
    subprocess.run(["nsenter", "-t", first, "-m", "bash", "-c", command], check=True)


@pytest.fixture
def only_here(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system that no node has."""
    folder = tmp_path / "only-here"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_ranks_get_the_environment_where_a_site_passes_none_on(user: User) -> None:
    shims = user.shims(sbatch='exec "$real" --export=NONE "$@"')
    text = 'echo "rank $RANK at $MASTER_ADDR:$MASTER_PORT has $OMP_NUM_THREADS"; type -P sed; exit 5'
    run = user.program("tiny-llama", 2, text, **shims)
    assert user.wait(run, 60)["exit_code"] == 5
    log = user.log(run)
    assert "rank 1 at n" in log
    assert "has 1\n" in log and "/sed\n" in log


def test_limits_of_the_submitting_shell_stay_there(user: User) -> None:
    program = user.script('echo "limits: $(ulimit -t) $(ulimit -f)"; exit 5')
    words = ["launch", *POINT, f"--set=cluster.python={program}"]
    limited = ["bash", "-c", 'ulimit -t 600 -f 1000000; exec python3 -m benchrun "$@"', "bash", *words]
    result = subprocess.run(limited, env=user.env, capture_output=True, encoding="utf-8", check=True)
    run = result.stdout.strip()
    user.wait(run, 60)
    assert "limits: unlimited unlimited" in user.log(run)


@pytest.mark.parametrize("name", some(["USR1", "USR2", "HUP"], 1))
def test_a_signal_to_the_batch_script_is_named(user: User, name: str) -> None:
    run = user.program("tiny-llama", 1, NAP)
    job = user.wait(run, 60, "running")["job"]
    user.until(lambda: "started" in user.log(run))
    user.slurm("scancel", f"--signal={name}", "--batch", job)
    row = user.wait(run, 60)
    assert (row["state"], done(user, run)["signal"]) == ("failed", name)
    assert row["exit_code"] == done(user, run)["exit_code"] > 128


def test_a_suspended_job_is_shown_and_is_not_hung(user: User) -> None:
    text = f"echo '{STEP}'; echo started; sleep 4; exit 5"
    run = user.program("tiny-llama", 1, text, "cluster.step_deadline_s=12")
    job = user.wait(run, 60, "running")["job"]
    user.until(lambda: "started" in user.log(run))
    user.slurm("scontrol", "suspend", job)
    assert user.wait(run, 30, "suspended")["state"] == "suspended"
    subprocess.run(["sleep", "14"], check=True)
    user.slurm("scontrol", "resume", job)
    row = user.wait(run, 60)
    assert (row["state"], row["exit_code"]) == ("failed", 5)
    assert done(user, run)["no_step_s"] is None


def test_a_results_folder_that_no_node_has_is_the_reason(slurm: str, only_here: Path) -> None:
    own = User(slurm, only_here / "results")
    run = own.launch("tiny-llama", 1)
    own.wait(run, 90)
    # The queue has no exit code: accounting adds it.
    own.until(lambda: any("does not see the run directory" in line for line in own.status(run)["evidence"]))


def test_a_link_that_only_this_machine_follows(slurm: str, tmp_path: Path) -> None:
    """The node has the same files by the name of the link, and not by that of its target."""
    shared, target, view = tmp_path / "shared", tmp_path / "target", tmp_path / "view"
    for folder in (shared, target, view / "results"):
        folder.mkdir(parents=True)
    (shared / "results").symlink_to(target)
    own = User(slurm, shared / "results")
    program = shared / "program.sh"
    (view / "program.sh").write_text('#!/bin/bash\necho "in $PWD"; exit 5\n', encoding="utf-8")
    (view / "program.sh").chmod(0o755)
    mounts = f"mount --bind {target} {view}/results && mount --rbind {view} {shared} && mount -t tmpfs none {target}"
    on_node(own, "n1", mounts)
    try:
        run = own.launch("tiny-llama", 1, f"cluster.python={program}", "cluster.nodelist=n1")
        assert own.wait(run, 60)["exit_code"] == 5
        assert f"in {shared}/results/runs/{run}" in own.log(run)
    finally:
        own.leave()
        on_node(own, "n1", f"umount -l {target} {shared} {view}/results || true")


def test_nodes_that_other_jobs_of_the_same_user_share(user: User) -> None:
    run = user.program("tiny-llama", 1, NAP, "cluster.exclusive=user")
    job = user.wait(run, 60, "running")["job"]
    assert "OverSubscribe=USER" in user.slurm("scontrol", "show", "job", job)
    user.call("cancel", run)
    assert user.wait(run, 60)["state"] == "cancelled"
