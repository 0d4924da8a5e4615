"""Whatever Slurm prints and whatever lies in a run directory: no traceback, and one broken run hides no other."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FakeSlurm
from hypothesis import given
from hypothesis import strategies as st
from selection import pairs

from benchrun import console
from benchrun.cli import group
from benchrun.jobs.slurm_text import SACCT, SQUEUE, jobs, refused, submitted
from benchrun.rundir.find import find_runs
from benchrun.rundir.folder import RunDir, as_event

DONE = {"schema_version": 1, "exit_code": 0, "signal": None, "restarts": 0, "job_id": "7", "host": "n1"}
POINT = ("tiny-llama", "--gpu=CPU", "--precision=fp32", "--num-gpus=1", "--cluster=slurm-cpu")


def benchrun(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str | int | None, str, str]:
    """The exit code of a command, its stdout and its stderr, without a traceback."""
    with pytest.raises(SystemExit) as ended:
        console.run(group, "benchrun", list(arguments))
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return ended.value.code, said.out, said.err


def a_folder(path: Any) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_pipe(path: Any) -> None:
    os.mkfifo(path)


def unreadable(path: Path) -> None:
    path.symlink_to("/proc/self/mem")  # whose first bytes are an input/output error


def text(content: Any) -> Any:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


RUBBISH = {
    "folder": a_folder,
    "loop": a_loop,
    "pipe": a_pipe,
    "nothing": text(""),
    "bytes": text(bytes(range(256))),
    "nested": text("[" * 100_000),
    "objects": text('{"a":' * 100_000),
    "number": text('{"exit_code": ' + "9" * 5000 + "}"),
    "list": text("[1, 2]"),
    "types": text('{"exit_code": "zero", "job_id": 7, "restarts": [], "ending": [], "evidence": 3, "nodes": 7}'),
    "more types": text(
        '{"exit_code": 1e999, "signal": {}, "event": {}, "time": 3, "ending": "failed", "evidence": null}'
    ),
    "no fields": text('{"event": "submitted"}\n{"event": "state", "time": "x"}\n{"event": "refused"}\n7\n'),
    "no time": text(
        '{"event": "created", "time": "9999-99-99"}\n{"event": "state", "time": "", "state": "", "phase": ""}'
    ),
}

FILES = ["events.jsonl", "done.json", "ending.json", "env.json", "stdout.log", "probe"]


@pytest.mark.parametrize(("name", "rubbish"), pairs(FILES, RUBBISH))
def test_rubbish_in_a_run_is_no_traceback_and_hides_no_other(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str], name: str, rubbish: str
) -> None:
    bad, good = make("7"), make("8")
    slurm.queue(good, "8", state="PENDING")
    slurm.queue(bad, "7", state="FAILED")
    (bad.path / name).unlink(missing_ok=True)
    RUBBISH[rubbish](bad.path / name)
    for _ in range(2):
        code, out, _ = benchrun(capsys, "status", "--json")
        rows = {row["run_id"]: row for row in json.loads(out)}
        assert (code, rows[good.run_id]["state"], rows[bad.run_id]["state"]) == (0, "pending", "failed")
    code, _, err = benchrun(capsys, "cancel", bad.run_id, good.run_id)
    assert (code, good.run_id in err) == (0, True)
    assert slurm.calls("scancel") == ["scancel 8"]


@pytest.mark.parametrize("make_spec", [*RUBBISH.values(), unreadable], ids=[*RUBBISH, "unreadable"])
def test_a_run_without_a_readable_spec_is_one_line(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str], make_spec: Callable[..., Any]
) -> None:
    bad, good = make("7"), make("8")
    slurm.queue(good, "8")
    (bad.path / "spec.json").unlink()
    make_spec(bad.path / "spec.json")
    code, out, err = benchrun(capsys, "status", "--json")
    assert (code, [row["run_id"] for row in json.loads(out)]) == (0, [good.run_id])
    assert len(err.splitlines()) <= 2
    if (bad.path / "spec.json").is_file():
        code, out, _ = benchrun(capsys, "status", bad.run_id, good.run_id, "--json")
        assert (code, [row["run_id"] for row in json.loads(out)]) == (2, [good.run_id])
        code, _, _ = benchrun(capsys, "cancel", bad.run_id, good.run_id)
        assert (code, slurm.calls("scancel")) == (2, ["scancel 8"])


ANSWERS = [
    "7\n",
    "7|\n",
    "7||||||||\n",
    "7| |0:0|||||\n",
    "|||||||\n",
    "x" * 100_000,
    b"7|RUN\xff\xfeNING|0|None|n1|/\xff\n".decode("utf-8", "surrogateescape"),
    f"7|FAILED|{'9' * 5000}:{'9' * 5000}|n1|None|2026-01-01T10:00:00|{'9' * 5000}|0|/\n",
    f"7|COMPLETED|0:0|n1|None|9999-12-31T23:59:59|0|{'9' * 30}|/\n",
    "<html><body>Welcome</body></html>\n",
]


@pytest.mark.parametrize(("command", "answer"), pairs(["squeue", "sacct"], ANSWERS))
def test_rubbish_from_slurm_is_no_traceback_and_no_end(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str], command: str, answer: str
) -> None:
    run = make()
    slurm.answer(command, out=answer)
    code, out, _ = benchrun(capsys, "status", "--json")
    assert (code, [row["ended"] for row in json.loads(out)]) == (0, [False])
    benchrun(capsys, "cancel", run.run_id)
    assert not slurm.calls("scancel")


@pytest.mark.parametrize("command", ["squeue", "sacct", "scancel"])
def test_a_command_that_cannot_be_run_is_the_machines_fault(
    slurm: FakeSlurm,
    make: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # not one of the same name that is installed here
    slurm.queue(run)
    (tmp_path / "bin" / command).unlink()
    (tmp_path / "bin" / command).write_text("\x7fELF")
    (tmp_path / "bin" / command).chmod(0o755)
    assert benchrun(capsys, "status", run.run_id)[0] == 0
    assert benchrun(capsys, "cancel", run.run_id)[0] == (0 if command == "sacct" else 3)


@given(st.text() | st.lists(st.sampled_from("7|COMPLETED: /0\n"), max_size=40).map("".join))
def test_reading_slurms_words_is_total(words: Any) -> None:
    jobs(words, [*SQUEUE])
    jobs(words, SACCT)
    submitted(words)
    refused(words)
    as_event(words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(DONE, JSON)))
def test_what_is_read_of_done_json_has_the_right_types(document: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder))
        run.write_json("done.json", {**DONE, **document})
        done = run.done()
    if done is not None:
        kinds = {key: type(value) for key, value in done}
        assert kinds.pop("signal") in (str, type(None))
        assert kinds.pop("no_step_s") in (int, type(None))
        texts = dict.fromkeys(("job_id", "host", "started", "ended"), str)
        assert kinds == {"exit_code": int, "restarts": int, **texts}


def test_the_job_id_is_told_where_it_cannot_be_recorded(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    other = make("5")
    slurm.queue(other, "5")
    slurm.answer("sbatch", out="7\n", ruin=True)
    code, _, err = benchrun(capsys, "launch", *POINT)
    assert code == 3
    assert "job 7 " in err
    assert "scancel 7" in err
    code, out, _ = benchrun(capsys, "status", "--json")
    assert (code, {row["state"] for row in json.loads(out)}) == (0, {"running"})
    (run,) = (run for run in find_runs(other.path.parent) if run != other)
    assert benchrun(capsys, "cancel", run.run_id)[0] == 0
    assert slurm.calls("scancel") == ["scancel 7"]


def test_a_refusal_is_told_where_it_cannot_be_recorded(slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    words = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    slurm.answer("sbatch", err=words, code=1, instead=True, ruin=True)
    code, _, err = benchrun(capsys, "launch", *POINT)
    assert (code, "Invalid partition name" in err) == (3, True)


@pytest.mark.parametrize("name", ["events.jsonl", "env.json", "steps.jsonl", "ending.json"])
def test_no_link_in_a_run_leads_a_writer_elsewhere(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    run = make()
    slurm.queue(run, state="FAILED")
    target = tmp_path / "precious"
    target.write_text("precious")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(target)
    (run.path / "stdout.log").write_text("no step\n")
    benchrun(capsys, "status", run.run_id)
    benchrun(capsys, "compare", run.run_id)
    benchrun(capsys, "cancel", run.run_id)
    assert target.read_text() == "precious"


def test_an_event_after_half_a_line_is_not_lost(make: Callable[..., Any]) -> None:
    run = make(None)
    with (run.path / "events.jsonl").open("a") as file:
        file.write('{"time": "2026-')
    run.append_event("submitted", job="7")
    assert run.job_id == "7"


def test_a_disk_that_is_full_when_the_worker_is_copied_is_named_once(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(source: Path, target: Path, **_: Any) -> None:
        raise shutil.Error([(str(source), str(target / str(number)), "No space left") for number in range(200)])

    monkeypatch.setattr(shutil, "copytree", full)
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    code, _, err = benchrun(capsys, "launch", *POINT)
    assert code == 2
    assert err.count("No space left") == 1
    assert not find_runs(tmp_path / "runs")


def test_an_event_that_a_full_disk_takes_half_of_is_an_error(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, write = make(None), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:9]))
    with pytest.raises(OSError, match="No space"):
        run.append_event("submitted", job="7")


def test_a_vanished_run_hides_no_other(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    bad, good = make("7"), make("8")
    slurm.queue(good, "8")
    from benchrun.cli import runs

    monkeypatch.setattr(runs, "opened", lambda *_: ([bad, good], 0))
    bad.spec  # noqa: B018  # read before the directory goes
    shutil.rmtree(bad.path)
    code, out, _ = benchrun(capsys, "status", "--json")
    assert (code, json.loads(out)[-1]["state"]) == (0, "running")


def test_a_log_that_cannot_be_read_hides_no_other(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = make("7"), make("8")
    slurm.queue(bad, "7", state="FAILED")
    slurm.queue(good, "8")
    unreadable(bad.path / "stdout.log")
    code, out, err = benchrun(capsys, "status", "--json")
    assert (code, [row["run_id"] for row in json.loads(out)], bad.run_id in err) == (2, [good.run_id], True)


def test_a_name_that_is_no_run_hides_no_other(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = make("8")
    slurm.queue(run, "8")
    for wrong, right in (("no-such-run", 2), ("x" * 5000, 2)):
        code, out, _ = benchrun(capsys, "status", "--json", wrong, run.run_id)
        assert (code, [row["state"] for row in json.loads(out)]) == (right, ["running"])
        assert benchrun(capsys, "cancel", wrong, run.run_id)[0] == right
        assert run.last_event("cancel_asked")
        (run.path / "events.jsonl").write_text("")


def test_what_a_terminal_would_obey_is_not_printed(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.queue(make("8"), "8", state="PENDING", why="\033[2J\a")
    code, out, _ = benchrun(capsys, "status")
    assert code == 0
    assert all(line.isprintable() for line in out.splitlines())


def test_names_that_are_no_text_are_printed(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = make()
    run.path.rename(os.fsdecode(os.fsencode(run.path) + b"-\xff"))
    code, out, _ = benchrun(capsys, "status")
    assert (code, len(out.splitlines())) == (0, 2)  # and the heading


def test_what_is_no_run_hides_no_run(
    slurm: FakeSlurm, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = make()
    root = run.path.parent
    a_loop(root / "loop")
    (root / "file").write_text("")
    (root / "empty").mkdir()
    (root / "away").symlink_to("/none/such")
    code, out, _ = benchrun(capsys, "status", "--json")
    assert (code, [row["run_id"] for row in json.loads(out)]) == (0, [run.run_id])


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), KeyError("x"), OSError(5, "Input/output error")])
def test_a_fault_of_this_program_does_not_look_like_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Any
) -> None:
    from benchrun.cli import runs

    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(runs, "opened", fails)
    with pytest.raises(SystemExit) as ended:
        console.run(group, "benchrun", ["status"])
    assert ended.value.code == 3
    assert type(error).__name__ in capsys.readouterr().err or isinstance(error, OSError)
