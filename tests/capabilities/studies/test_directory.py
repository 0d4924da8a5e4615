"""The directory of a study: what is noted survives, and two launchers never work at once."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.capabilities.studies.state import StudyDir
from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.jobs.launcher import observe
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir


def made(root: Path) -> RunDir:
    spec = resolve(Request("tiny-llama", "CPU", "fp32", 1))
    return create(root, spec, render(spec))


def test_runs_are_listed_by_slot_in_order(tmp_path: Path) -> None:
    directory, runs = StudyDir("mine", tmp_path), [made(tmp_path) for _ in range(3)]
    with directory.locked():
        directory.record(("a", 1), runs[0])
        directory.record(("b", 1), runs[1])
        directory.record(("a", 1), runs[2])
    assert StudyDir("mine", tmp_path).runs() == {("a", 1): [runs[0], runs[2]], ("b", 1): [runs[1]]}


def test_a_run_that_is_listed_twice_is_one_run(tmp_path: Path) -> None:
    directory, (first, second) = StudyDir("mine", tmp_path), [made(tmp_path) for _ in range(2)]
    with directory.locked():
        for slot, run in [(("a", 1), first), (("a", 1), first), (("a", 2), first), (("a", 2), second)]:
            directory.record(slot, run)
    assert StudyDir("mine", tmp_path).runs() == {("a", 1): [first], ("a", 2): [second]}


def test_a_launcher_killed_at_any_file_leaves_no_run(tmp_path: Path) -> None:
    """Killed at each system call that makes or opens a file of the new directory."""
    program = """
import os, sys
from pathlib import Path
from benchrun.jobs import create
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
spec = resolve(Request("tiny-llama", "CPU", "fp32", 1))
files = render(spec)
calls = 0
def count(event, args):
    global calls
    calls += event in ("open", "os.mkdir", "os.rename") and sys.argv[1] in str(args)
    if calls > int(sys.argv[2]):
        os.kill(os.getpid(), 9)
sys.addaudithook(count)
create.create(Path(sys.argv[1]), spec, files)
"""
    left = []
    for number in (0, 1, 2, 5, 9, 40, 10_000):
        root = tmp_path / f"runs{number}"
        root.mkdir()
        subprocess.run([sys.executable, "-c", program, str(root), str(number)], check=False)
        left.append(len(find_runs(root)))
        assert all(run.spec and run.last_event("created") for run in find_runs(root))
    assert left == [0, 0, 0, 0, 0, 0, 1]
    assert any((tmp_path / "runs40").iterdir())  # it was killed in the middle


def test_a_run_without_a_job_or_an_event_has_ended_after_a_minute(tmp_path: Path) -> None:
    run = made(tmp_path)
    (run.path / "events.jsonl").unlink()
    (observation,) = observe([run])
    assert not observation.over
    os.utime(run.path / "spec.json", (1e9, 1e9))
    (observation,) = observe([run])
    assert observation.over
    assert api.status_of(observation)["state"] == "launch_failed"
    assert "launcher" in observation.note


def test_a_removed_run_is_no_longer_known(tmp_path: Path) -> None:
    import shutil

    directory, run = StudyDir("mine", tmp_path), made(tmp_path)
    with directory.locked():
        directory.record(("a", 1), run)
    shutil.rmtree(run.path)
    assert directory.runs() == {}


@pytest.mark.parametrize(
    "line",
    [
        '{"time": "2026-01-01T00:00:00Z", "event": "prepared", "point": "a", "repe',
        '{"time": "2026-01-01T00:00:00Z", "event": "prepared", "point": "a", "repeat": 1, "run": "../x"}',
        '{"time": "2026-01-01T00:00:00Z", "event": "prepared", "point": 7, "repeat": "1", "run": "x"}',
        "[]",
    ],
)
def test_a_damaged_line_is_ignored_and_the_next_one_counts(tmp_path: Path, line: str) -> None:
    directory, run = StudyDir("mine", tmp_path), made(tmp_path)
    with directory.locked():
        (directory.path / "events.jsonl").write_text(line)
        directory.record(("b", 2), run)
    assert directory.runs() == {("b", 2): [run]}


def test_a_second_launcher_is_refused_until_the_first_one_has_ended(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom benchrun.capabilities.studies.state import StudyDir\n"
        f"with StudyDir('mine', pathlib.Path({str(tmp_path)!r})).locked():\n"
        "    print('locked', flush=True)\n    sys.stdin.read()\n"
    )
    first: Any = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout.readline() == "locked\n"
    with pytest.raises(UserError, match="another process launches these runs"), StudyDir("mine", tmp_path).locked():
        pass
    os.kill(first.pid, 9)
    first.wait()
    with StudyDir("mine", tmp_path).locked():
        pass


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    directory = StudyDir("mine", tmp_path)
    directory.path.mkdir()
    (directory.path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="cannot write"), directory.locked():
        pass
    assert not (tmp_path / "elsewhere").exists()
