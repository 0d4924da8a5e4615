"""Others use the same cluster and the same folder: no job and no file of another is touched, none is mistaken."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .conftest import DIR, User

pytestmark = pytest.mark.thorough

HERE = "cluster.exclude=n3"
SLEEP = "echo started; exec sleep 600"
NOBODY = 65534
COLLEAGUE = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@pytest.fixture(scope="module")
def pair(slurm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two results folders of one user, and a run of the same point in each, launched in the same second."""
    users = [User(slurm, tmp_path_factory.mktemp(name)) for name in ("first", "second")]
    program = users[0].script(SLEEP)
    clock = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
    # From one moment on the clock goes so slowly that both launches fall into its first second.
    env = {"LD_PRELOAD": str(clock), "FAKETIME": "@2026-11-22 00:00:00 x0.1", "FAKE_UTIME": "1"}
    true = users[0].shims(sbatch='unset LD_PRELOAD FAKETIME; exec $real "$@"') if clock else {}

    def launch(user: Any) -> Any:
        return user.launch("tiny-llama", 1, f"cluster.python={program}", HERE, **(env if clock else {}), **true)

    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(launch, users))
    yield list(zip(users, runs, strict=True))
    for user in users:
        user.leave()


def test_two_results_folders_in_the_same_second(pair: Any) -> None:
    (first, run), (second, other) = pair
    jobs = {first.wait(run, 60, "running")["job"], second.wait(other, 60, "running")["job"]}
    assert len(jobs) == 2
    for user, name in pair:  # an id that was never recorded: each finds its own
        path = user.runs / name / "events.jsonl"
        path.write_text(path.read_text().splitlines()[0] + "\n")
    assert {first.status(run)["job"], second.status(other)["job"]} == jobs
    first.call("cancel", run)
    assert first.wait(run, 60)["state"] == "cancelled"
    assert second.status(other)["state"] == "running"


def test_a_job_id_that_is_another_runs_now(pair: Any, user: Any) -> None:
    """The controller lost its state and counts anew: the id of an old run is given to a job of somebody else."""
    _, (second, other) = pair
    job = second.wait(other, 60, "running")["job"]
    old = user.program("tiny-llama", 1, "exit 5", HERE)
    user.until(lambda: (user.runs / old / "done.json").exists())
    user.until(lambda: not user.slurm("squeue", "--noheader", f"--name={old}"))
    forgotten = user.program("tiny-llama", 1, "exit 0", HERE)
    user.until(lambda: (user.runs / forgotten / "done.json").exists())
    for run in (old, forgotten):
        events = user.runs / run / "events.jsonl"
        events.write_text(re.sub(r'"job": "\d+"', f'"job": "{job}"', events.read_text()))
        (user.runs / run / "ending.json").unlink(missing_ok=True)
    (user.runs / forgotten / "done.json").unlink()
    # Found by its directory in accounting; without accounting, nobody knows it. Never is it the other job.
    assert user.status(old)["state"] == "failed"
    row = user.status(forgotten, **user.shims(sacct="exit 1"))
    assert row["state"] != "running"
    for run in (old, forgotten):
        user.call("cancel", run, check=False)
    assert second.status(other)["state"] == "running"


@pytest.fixture(scope="module")
def shared(slurm: Any) -> Iterator[Any]:
    """A results folder that everybody may write to."""
    path = DIR / "shared"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o1777)
    path.chmod(0o1777)
    found = User(slurm, path)
    found.runs.mkdir()
    found.runs.chmod(0o1777)
    yield found
    found.leave()


def colleagues(shared: Any, text: Any) -> Any:
    """A colleague's run with its job; the run's directory."""
    made = shared.program("tiny-llama", 1, text, HERE)
    shared.call("cancel", made)
    shared.wait(made, 60)
    path = shared.runs / made.replace("tiny-llama", "tiny-llama-colleague")
    (shared.runs / made).rename(path)
    for name in ("ending.json", "done.json", "env.json", "stdout.log", "stderr.log"):
        (path / name).unlink(missing_ok=True)
    script = shared.script(text)
    for folder in (script.parent, path):
        folder.chmod(0o755)
    job_script = (path / "job.sh").read_text()
    (path / "job.sh").write_text(re.sub(r"\S*/program\S*/program.sh", str(script), job_script))
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", path], check=True)
    command = ["sbatch", "--parsable", f"--chdir={path}", f"--job-name={path.name}", "job.sh"]
    # root's own settings, HOME among them, are not the colleague's
    env = {name: shared.env[name] for name in ("PATH", "SLURM_CONF")}
    done = subprocess.run([*COLLEAGUE, *command], env=env, cwd=path, capture_output=True, text=True, check=True)
    job = done.stdout.split()[-1]
    created = (path / "events.jsonl").read_text().splitlines()[0]
    submitted = {"time": json.loads(created)["time"], "event": "submitted", "job": job}
    (path / "events.jsonl").write_text(f"{created}\n{json.dumps(submitted)}\n")
    os.chown(path / "events.jsonl", NOBODY, NOBODY)
    return path, job


def contents(path: Any) -> Any:
    """What lies in a run's directory, except for what the job itself goes on writing."""
    files = (file for file in path.rglob("*") if file.is_file())
    return {file: file.read_bytes() for file in files if file.suffix != ".log" and "progress.json" not in file.name}


def test_a_colleagues_running_job_is_running_and_nothing_is_written(shared: Any) -> None:
    path, job = colleagues(shared, SLEEP)
    shared.until(lambda: "started" in shared.log(path.name))
    before = contents(path)
    own = shared.program("tiny-llama", 1, "exit 5", HERE)
    shared.wait(own, 60)
    (shared.runs / own / "ending.json").unlink(missing_ok=True)
    # One id that nobody knows: squeue refuses the list that holds it.
    events = shared.runs / own / "events.jsonl"
    events.write_text(re.sub(r'"job": "\d+"', '"job": "987654"', events.read_text()))
    now = {row["run_id"]: row for row in shared.rows(path.name, own)}
    assert (now[path.name]["state"], now[path.name]["job"]) == ("running", job)
    assert now[own]["state"] in {"failed", "gone"}  # accounting may hear of its end a little later
    assert shared.wait(own, 60)["state"] == "failed"
    assert contents(path) == before
    shared.slurm("scancel", job)
    assert shared.wait(path.name, 60)["state"] == "cancelled"
    assert contents(path) | before == contents(path)
    assert not (path / "ending.json").exists()
    assert not (path / "env.json").exists()


@pytest.mark.parametrize("name", ["events.jsonl", "ending.json", "env.json", ".local.lock"])
def test_a_link_in_a_shared_folder_leads_nowhere(shared: Any, tmp_path: Path, name: Any) -> None:
    run = shared.program("tiny-llama", 1, "exit 5", HERE)
    path = shared.runs / run
    shared.wait(run, 60)
    victim = tmp_path / "victim"
    victim.write_text("untouched\n")
    for old in ("ending.json", "env.json", name):
        (path / old).unlink(missing_ok=True)
    (path / name).symlink_to(victim)
    for owner in (0, NOBODY):  # one's own run with a link that somebody could make, and a colleague's whole
        os.chown(path, owner, owner)
        os.chown(path / name, NOBODY, NOBODY, follow_symlinks=False)
        shared.rows(run)
        assert shared.call("status", run, check=False).returncode in (0, 2)
        shared.call("cancel", run, check=False)
        assert victim.read_text() == "untouched\n"
