"""``cancel --all`` stops the runs of the one who calls it, and touches no other."""

import os
from pathlib import Path

import pytest
from test_local import local_state, sleeping, start, until, wait

from benchrun import api
from benchrun.cli.runs import cancel
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import cancel as stop
from benchrun.rundir.folder import RunDir

NOBODY = 65534


def files(run: RunDir) -> dict[str, bytes]:
    """Content by name, without what the running job itself writes."""
    return {
        path.name: path.read_bytes()
        for path in run.path.iterdir()
        if path.is_file() and path.suffix in (".json", ".jsonl")
    }


def linked(runs: Path, elsewhere: Path) -> RunDir:
    """A colleague's run, to which a link in the runs folder leads."""
    run = start(elsewhere, "sleep 63.75")
    (runs / run.run_id).symlink_to(run.path)
    return run


def given_away(runs: Path, elsewhere: Path) -> RunDir:
    """A run in a folder that several people share."""
    run = start(runs, "sleep 63.75")
    os.chown(run.path, NOBODY, NOBODY)
    return run


OTHERS = [
    linked,
    pytest.param(given_away, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root to own another's file")),
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_run_of_somebody_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], other: object
) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    runs = tmp_path / "runs"
    runs.mkdir()
    theirs = other(runs, tmp_path / "colleague")  # type: ignore[operator]
    until(lambda: sleeping("63.75"))
    own = start(runs, "sleep 64.75")
    before = files(theirs)
    try:
        assert cancel.callback((), True) == 0
        said = capsys.readouterr().err
        assert theirs.run_id in said and f"{own.run_id}: asked to stop" in said
        assert f"{theirs.run_id}: asked" not in said
        assert wait(own).ending is Ending.CANCELLED
        assert sleeping("63.75") and local_state(theirs) == "RUNNING"
        assert files(theirs) == before
    finally:
        os.chown(theirs.path, os.geteuid(), os.getegid())
        stop(theirs)
        wait(theirs)


def test_without_a_run_of_one_s_own_nothing_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    runs = tmp_path / "runs"
    runs.mkdir()
    theirs = linked(runs, tmp_path / "colleague")
    try:
        assert cancel.callback((), True) == 0
        said = capsys.readouterr().err
        assert theirs.run_id in said and "asked" not in said
        assert not api.observe([theirs])[0].over
    finally:
        stop(theirs)
        wait(theirs)
