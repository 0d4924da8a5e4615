"""A stand-in for Slurm's commands: what a healthy cluster does, and any answer that it would not give on demand."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchrun.jobs.create import create
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

PROGRAM = r"""
import json, os, pathlib, re, sys, time
here = pathlib.Path(__file__).resolve().parent
name = pathlib.Path(sys.argv[0]).name
with open(here / "calls", "a") as calls:
    calls.write(" ".join([name, *sys.argv[1:]]) + "\n")
state = json.loads((here / "state.json").read_text())
options = dict(a[2:].partition("=")[::2] for a in sys.argv[1:] if a.startswith("--"))
answer = state["answers"].get(name)
if name == "sbatch" and not (answer and answer.get("instead")):
    job = {"id": str(state["next"]), "dir": options["chdir"], "name": options["job-name"]}
    state["jobs"].append(job)
    (here / "state.json").write_text(json.dumps(state))
    answer = answer or {"out": job["id"] + "\n"}
if answer:
    if answer.get("ruin"):
        os.unlink("events.jsonl")
        os.mkdir("events.jsonl")
    time.sleep(answer.get("sleep", 0))
    sys.stdout.buffer.write(answer.get("out", "").encode("utf-8", "surrogateescape"))
    sys.stderr.write(answer.get("err", ""))
    sys.exit(answer.get("code", 0))
if name == "scancel":
    sys.exit(0)
ids = options["jobs"].split(",") if "jobs" in options else None
jobs = [{"state": "RUNNING", "uid": os.getuid(), "why": "None", "nodes": "n1", "code": "0:0", "start": "Unknown",
         "end": "Unknown", **job}
        for job in state["jobs" if name == "squeue" else "past"]]
if name == "squeue" and ids and set(ids) - {job["id"] for job in jobs}:
    sys.exit("slurm_load_jobs error: Invalid job id specified")
jobs = [job for job in jobs if (ids is None or job["id"] in ids)
        and ("user" not in options or options["user"] == str(job["uid"]))
        and ("name" not in options or job["name"] in options["name"].split(","))]
if name == "squeue":
    keys = {"i": "id", "T": "state", "U": "uid", "u": "uid", "r": "why", "N": "nodes", "S": "start", "Z": "dir",
            "j": "name"}
    for job in jobs:
        print(re.sub("%(.)", lambda match: str(job[keys[match[1]]]), options["format"]))
else:
    keys = {"JobID": "id", "State": "state", "ExitCode": "code", "NodeList": "nodes", "Reason": "why", "Start": "start",
            "End": "end", "UID": "uid", "WorkDir": "dir", "JobName": "name"}
    fields = options["format"].split(",")
    if unknown := [field for field in fields if field not in keys]:
        sys.exit(f'sacct: error: Invalid field requested: "{unknown[0]}"')
    for job in jobs:
        print("|".join(str(job[keys[field]]) for field in fields))
"""


class FakeSlurm:
    """Jobs in the queue and in accounting, and answers that replace them."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        (folder / "program.py").write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
        (folder / "program.py").chmod(0o755)
        for name in ("squeue", "sacct", "sbatch", "scancel"):
            (folder / name).symlink_to("program.py")
        self._state = {"jobs": [], "past": [], "answers": {}, "next": 7}
        self._write()

    def _write(self) -> None:
        (self._folder / "state.json").write_text(json.dumps(self._state))

    def _jobs(self, place: Any, run: Any, job: Any, facts: Any) -> None:
        found = {"id": job, "dir": str(run.path), "name": run.run_id, **facts}
        self._state[place] = [*(each for each in self._state[place] if each["id"] != job), found]
        self._write()

    def queue(self, run: Any, job: Any = "7", **facts: Any) -> None:
        """A job in the queue: state, uid, why, nodes, start, dir, name."""
        self._jobs("jobs", run, job, facts)

    def account(self, run: Any, job: Any = "7", **facts: Any) -> None:
        """A job that accounting remembers; beside those of the queue: code, end."""
        self._jobs("past", run, job, facts)

    def answer(self, command: Any, **what: Any) -> None:
        """Let ``command`` print ``out`` and ``err`` after ``sleep`` seconds and end with ``code``; nothing: as usual.

        A job that sbatch is given is taken all the same, but with ``instead``. ``ruin``: nothing more can be recorded.
        """
        self._state["answers"].pop(command, None)
        if what:
            self._state["answers"][command] = what
        self._write()

    def calls(self, command: Any) -> Any:
        """The calls of one command so far."""
        log = self._folder / "calls"
        return [line for line in log.read_text().splitlines() if line.split()[0] == command] if log.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Slurm's commands on the path, and a results folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    return FakeSlurm(folder)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """Make a run of that Slurm, its job recorded; with ``job=None`` its launcher died before."""

    def run(job: Any = "7") -> Any:
        spec = resolve(Request("tiny-llama", "CPU", "fp32", 1, None, "slurm-cpu", ()))
        made = create(tmp_path / "runs", spec, render(spec))
        if job is not None:
            made.append_event("submitted", job=job)
        return made

    return run
