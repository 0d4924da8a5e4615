"""Launching on this machine, with real processes: how runs end, and that nothing is lost."""

import contextlib
import errno
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from calling import DEADLINE_S

from benchrun import api
from benchrun.cli.options import opened
from benchrun.cli.points import launch as launch_command
from benchrun.cli.reports import report
from benchrun.errors import UserError
from benchrun.jobs.create import create
from benchrun.jobs.endings import End, Ending
from benchrun.jobs.launcher import cancel, observe
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.find import find_runs, open_run
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec


def tiny(*overrides: str) -> RunSpec:
    return resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=overrides))


def start(root: Path, program: str, *overrides: str) -> RunDir:
    """Launch a run whose training is a few lines of shell."""
    root.mkdir(exist_ok=True)
    script = root / f"program-{time.monotonic_ns()}.sh"
    script.write_text(f"#!/bin/bash\n{program}\n")
    script.chmod(0o755)
    spec = tiny(f"cluster.python={script}", *overrides)
    return api.start(spec, root)


def wait(run: RunDir, deadline_s: float = DEADLINE_S) -> End:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        observation = observe([run])[0]
        if observation.over:
            return api.record_end(observation)
        time.sleep(0.1)
    raise AssertionError(f"{run.run_id} has not ended")


def until(condition: Callable[..., Any], deadline_s: float = DEADLINE_S) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def local_state(run: RunDir) -> str:
    return (run.read_json("local.json") or {}).get("state")


def test_a_failing_program_gives_its_own_exit_code(tmp_path: Path) -> None:
    end = wait(start(tmp_path, "echo out; echo err >&2; exit 7"))
    assert (end.ending, end.exit_code) == (Ending.FAILED, 7)


def test_a_killed_program_is_failed_with_its_signal(tmp_path: Path) -> None:
    run = start(tmp_path, "kill -KILL $$")
    assert wait(run).ending is Ending.FAILED
    assert run.done().exit_code == 137


def test_success_without_a_step_is_incomplete(tmp_path: Path) -> None:
    assert wait(start(tmp_path, "exit 0")).ending is Ending.INCOMPLETE


def test_a_recipe_field_reaches_the_program_as_text(tmp_path: Path) -> None:
    nasty = "$(touch x); \"quote\" 'single' `id` \\ end"
    run = start(tmp_path, 'printf "%s\\n" "$NASTY"', f"env.NASTY={nasty}")
    wait(run)
    assert nasty in (run.path / "stdout.log").read_text().splitlines()
    assert not list(tmp_path.rglob("x"))


def test_a_token_reaches_the_program_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "token-that-nobody-may-find")
    run = start(tmp_path, 'echo "${#HF_TOKEN} letters"', "cluster.secrets=[HF_TOKEN]")
    wait(run)
    assert "26 letters" in (run.path / "stdout.log").read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"token-that-nobody-may-find" in path.read_bytes()]


def test_the_sites_own_lines_may_read_what_is_not_set(tmp_path: Path) -> None:
    run = start(tmp_path, 'echo "it is $SITE"', "cluster.setup=['export SITE=${NOWHERE_SET}here']")
    wait(run)
    assert "it is here" in (run.path / "stdout.log").read_text()


def test_the_time_limit_is_kept(tmp_path: Path) -> None:
    run = start(tmp_path, "echo started; sleep 60", "cluster.time_limit=00:00:03")
    assert wait(run).ending is Ending.TIMEOUT
    assert run.done().signal == "TERM"


def test_cancel_ends_every_process_of_the_run(tmp_path: Path) -> None:
    run = start(tmp_path, "setsid sleep 61.25 & sleep 62.25")
    until(lambda: sleeping("62.25"))
    assert cancel(run)
    assert wait(run).ending is Ending.CANCELLED
    assert not cancel(run)  # it has ended
    assert not sleeping("61.25")
    assert not sleeping("62.25")


def sleeping(seconds_asked: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{seconds_asked}\0".encode():
                return True
    return False


def test_one_run_at_a_time(tmp_path: Path) -> None:
    first = start(tmp_path, "echo started; sleep 60")
    until(lambda: local_state(first) == "RUNNING")
    second = start(tmp_path, "exit 0")
    assert observe([second])[0].job.state == "PENDING"
    cancel(first)
    assert wait(second).ending is Ending.INCOMPLETE


def test_a_cancelled_run_that_waits_never_starts(tmp_path: Path) -> None:
    first = start(tmp_path, "sleep 60")
    until(lambda: local_state(first) == "RUNNING")
    second = start(tmp_path, "touch ran")
    cancel(second)
    assert wait(second).ending is Ending.CANCELLED
    cancel(first)
    wait(first)
    assert not (second.path / "ran").exists()


def test_a_run_survives_its_launcher(tmp_path: Path) -> None:
    code = f"import os,signal,sys; sys.path[:0] = {sys.path!r}\n"
    code += "from pathlib import Path\nimport test_local\n"
    code += f"run = test_local.start(Path({str(tmp_path)!r}), 'sleep 1; exit 3')\n"
    code += "print(run.run_id, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    launcher = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert launcher.returncode == -signal.SIGKILL
    end = wait(open_run(launcher.stdout.strip(), tmp_path))
    assert (end.ending, end.exit_code) == (Ending.FAILED, 3)


def test_launches_at_one_moment_make_directories_of_their_own(tmp_path: Path) -> None:
    spec = tiny()
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: create(tmp_path, spec, render(spec)), range(8)))
    assert len({run.run_id for run in runs}) == 8
    assert len(find_runs(tmp_path)) == 8
    assert all(run.spec == spec for run in runs)


def test_launches_in_two_folders_at_one_moment_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's name is its run's: with one name for two, one would be taken for the other."""
    now = datetime(2026, 11, 22, tzinfo=timezone.utc)
    monkeypatch.setattr(
        "benchrun.jobs.create.datetime", SimpleNamespace(now=lambda _: now, fromtimestamp=lambda *_: now)
    )
    spec = tiny()
    runs = [create(tmp_path / folder, spec, render(spec)) for folder in "abcd"]
    assert len({run.run_id[:-5] for run in runs}) == 1
    assert len({run.run_id for run in runs}) > 1


def test_a_run_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    run = create(tmp_path, tiny(), render(tiny()))
    with pytest.raises(UserError, match="no run is called") as error:
        open_run(run.run_id[:-3] + "xyz", tmp_path)
    assert run.run_id in error.value.hint
    assert open_run(run.run_id[:14], tmp_path).run_id == run.run_id


def test_a_run_that_is_named_twice_is_no_repeat_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    run = create(tmp_path / "runs", tiny(), render(tiny()))
    assert opened([run.run_id, str(run.path), run.run_id[:14]])[0] == [run]


def test_a_spec_of_another_version_is_one_clear_error(tmp_path: Path) -> None:
    run = create(tmp_path, tiny(), render(tiny()))
    path = run.path / "spec.json"
    path.write_text(path.read_text().replace('"schema_version": 2', '"schema_version": 99'))
    with pytest.raises(UserError, match="schema of this RunSpec is 99"):
        open_run(run.run_id, tmp_path).spec  # noqa: B018


def test_a_run_that_cannot_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    good, bad = (create(tmp_path / "runs", tiny(), render(tiny())) for _ in range(2))
    (bad.path / "spec.json").write_text("{}")
    assert opened([]) == opened([], last=2) == ([good], 0)
    assert f"error: {bad.path}/spec.json: not a RunSpec" in capsys.readouterr().err
    with pytest.raises(UserError, match="not a RunSpec"):
        api.open_run(bad.run_id).spec  # noqa: B018


def test_a_disk_that_takes_nothing_more_hides_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tmp_path, "exit 7")
    until(lambda: local_state(run) == "FAILED")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RunDir, "write_json", full)
        patched.setattr(RunDir, "append_event", full)
        assert wait(run).ending is Ending.FAILED
    assert not (run.path / "ending.json").exists()
    assert wait(run).ending is Ending.FAILED
    assert (run.path / "ending.json").exists()


DAMAGE = [b"", b"7", b"[]", b"{}", b'{"half": ', bytes(range(256))]


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_ending_that_cannot_be_read_is_asked_for_anew(tmp_path: Path, damage: bytes) -> None:
    run = start(tmp_path, "exit 7")
    first = wait(run)
    (run.path / "ending.json").write_bytes(damage)
    assert wait(run) == first
    assert (first.ending, (run.read_json("ending.json") or {})["exit_code"]) == (Ending.FAILED, 7)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["spec.json", "verdict.json", "env.json", "done.json", "breakdown.json"])
def test_a_damaged_file_of_a_run_is_read_as_missing_or_is_one_clear_error(
    tmp_path: Path, name: str, damage: bytes
) -> None:
    run = create(tmp_path, tiny(), render(tiny()))
    (run.path / name).write_bytes(damage)
    for step in (api.result_of, partial(api.keep, folder=tmp_path / "kept")):
        with contextlib.suppress(UserError):
            step(RunDir(run.path))


def test_sampled_rows_that_cannot_be_unpacked_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "telemetry").mkdir()
    (tmp_path / "telemetry" / "n1.csv.xz").write_bytes(b"")
    with pytest.raises(UserError, match=r"n1.csv.xz: cannot be unpacked"):
        RunDir(tmp_path).telemetry()


def test_a_report_of_all_runs_leaves_out_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    good, bad = (create(tmp_path / "runs", tiny(), render(tiny())) for _ in range(2))
    (bad.path / "verdict.json").write_text('{"schema_version": 99}')
    report([], standalone_mode=False)
    said = capsys.readouterr()
    assert "| 1 |" in said.out
    assert f"error: {bad.path}/verdict.json: not what benchrun writes" in said.err
    assert report([good.run_id, bad.run_id], standalone_mode=False) == 2
    assert "| 1 |" in capsys.readouterr().out
    assert report([bad.run_id], standalone_mode=False) == 2
    assert "not what benchrun writes" in capsys.readouterr().err


def test_events_survive_a_line_that_was_cut(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.append_event("one")
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"time": "2026-\xff')
    assert [event["event"] for event in run.events()] == ["one"]


def test_a_read_only_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        create(tmp_path / "file" / "runs", tiny(), render(tiny()))


@pytest.mark.parametrize(
    ("limit", "expected"), [("00:00:05", 5), ("00:10:00", 600), ("1-00:00:00", 86400), ("2:00:00", 7200)]
)
def test_time_limits_are_slurms(limit: str, expected: int) -> None:
    assert tiny(f"cluster.time_limit={limit}").cluster.time_limit_s == expected


def test_ctrl_c_names_every_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [create(tmp_path / "runs", tiny(), render(tiny())) for _ in range(2)]

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "start", lambda *_: runs.pop(0))
    monkeypatch.setattr(api, "wait_for", interrupted)
    ids = " ".join(run.run_id for run in runs)
    point = ["tiny-llama", "--gpu", "CPU", "--precision", "fp32", "--num-gpus", "1", "--repeats", "2", "--wait"]
    assert launch_command(point, standalone_mode=False) == 130
    assert capsys.readouterr().err.rstrip().endswith(f"benchrun cancel {ids}")
