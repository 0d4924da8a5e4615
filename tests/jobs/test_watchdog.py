"""The watchdog of a job: it knows every framework's steps, notes how long none came, and ends what is hung."""

import functools
import itertools
import lzma
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from test_local import start, tiny, until, wait
from test_local_family import DEAF, left, printed, ranks

from benchrun.frameworks.logs import DIALECTS, parse_log
from benchrun.frameworks.registry import framework, names
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import cancel, observe
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve, resolve_point
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import PROGRESS, Progress
from benchrun.rundir.folder import RunDir

LOGS = Path(__file__).parent.parent / "logs"
FRAMEWORKS = names()
STEP = "iteration %8d/      20 | consumed samples: 8 | elapsed time per iteration (ms): 5.0 | lm loss: 1.0E+00 |"
LEFT_OUT = ("04-", "05-", "18-", "19-", "20-", "21-", "26-")
"""Bars alone, which the worker does not draw; torchtitan and NeMo-Aligner's fine-tuning, which are only read."""


@functools.cache
def job(name: Any) -> Any:
    """The script of the first point that runs in this framework."""
    files = (catalogue.recipe_file(name) for name in catalogue.trainings())
    points = ((file, point) for file in files for point in catalogue.points(file.recipe))
    return next(render(resolve_point(*each))["job.sh"] for each in points if each[1].framework == name)


def words(name: str) -> list[bytes]:
    """What the script's watchdog looks for."""
    (line,) = (line for line in job(name).splitlines() if "grep -acF" in line)
    arguments = shlex.split(line[line.index("grep -acF") :].rstrip(")"))
    return [words.encode() for option, words in itertools.pairwise(arguments) if option == "-e"]


def logs() -> list[Path]:
    """Real logs with rows: of the frameworks, and one of each of the workers."""
    found = [path for path in sorted(LOGS.glob("*.log.xz")) if not path.name.startswith(LEFT_OUT)]
    for recipe in ("llama3.1-8b-2c0cb897-*", "mistral-7b-hf-*"):
        found.append(kept_runs.first(recipe) / "stdout.log.xz")
    return found


STEPPING = [name for name in FRAMEWORKS if framework(name).workload == "training"]
"""Frameworks that train, whose jobs have a watchdog."""


def test_every_framework_that_launches_has_a_dialect_and_words() -> None:
    assert set(STEPPING) <= set(DIALECTS)
    for name in STEPPING:
        assert set(words(name)) <= set(DIALECTS[name].step_needles) | {b"elapsed time per iteration ("}


@pytest.mark.parametrize("path", logs(), ids=lambda path: path.parent.name[:20] + path.name[:20])
def test_the_watchdog_sees_each_step_that_the_dialect_reads(path: Path) -> None:
    log = parse_log(path)
    lines = lzma.decompress(path.read_bytes()).split(b"\n")
    assert len(log.steps)
    for row in log.steps:
        assert any(word in lines[row.line - 1] for word in words(log.framework)), lines[row.line - 1]


def test_the_log_of_each_framework_is_among_them() -> None:
    read = {parse_log(path).framework for path in logs()}
    assert set(STEPPING) <= read


HANG = f"for step in 1 2 3; do printf '{STEP}\\n' $step; done; "


@pytest.mark.thorough
def test_ranks_that_stop_after_a_step_are_ended(tmp_path: Path) -> None:
    program = f"{DEAF}; {HANG} setsid sleep 81.5 & while :; do sleep 82.5; done"
    run = start(tmp_path, program, "cluster.step_deadline_s=4")
    end = wait(run, 60)
    assert (end.ending, end.last_step) == (Ending.HUNG, 3)
    assert end.exit_code != 0
    assert run.done().no_step_s >= 4
    assert any(f"no step for the last {run.done().no_step_s} s" in evidence for evidence in end.evidence)
    assert "benchrun: no step for" in (run.path / "stderr.log").read_text()
    assert left(run) == []


def test_noise_is_no_step(tmp_path: Path) -> None:
    run = start(tmp_path, "while :; do echo noise; sleep 0.2; done", "cluster.step_deadline_s=3")
    end = wait(run, 60)
    assert (end.ending, end.last_step) == (Ending.HUNG, None)
    assert left(run) == []


def test_steps_in_time_are_left_alone(tmp_path: Path) -> None:
    program = f"for step in 1 2 3 4 5 6; do printf '{STEP}\\n' $step; sleep 1; done; exit 9"
    run = start(tmp_path, program, "cluster.step_deadline_s=4")
    end = wait(run, 60)
    assert (end.ending, end.exit_code) == (Ending.FAILED, 9)
    assert run.done().no_step_s is None
    assert left(run) == []


def test_progress_says_where_the_last_step_stands(tmp_path: Path) -> None:
    run = start(tmp_path, f"echo before; {HANG} sleep 83.5", "cluster.step_deadline_s=20")
    until(lambda: (seen := run.read(PROGRESS, Progress)) is not None and seen.step_lines == 3, 40)
    seen = run.read(PROGRESS, Progress)
    assert seen.step_file == "stdout.log"
    assert b"elapsed" in (run.path / "stdout.log").read_bytes()[seen.step_offset :]
    cancel(run)
    assert left(run) == []


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"quiet_s": "x"}', b'{"half', bytes(range(256))])
def test_progress_that_is_damaged_is_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "progress.json").write_bytes(damage)
    assert RunDir(tmp_path).read(PROGRESS, Progress) is None


def test_slurms_own_last_words_do_not_hide_a_silence(tmp_path: Path) -> None:
    """They touch the log; what the watchdog saw before them counts."""
    run = ranks(tmp_path, "84.5")
    cancel(run)
    observe([run])
    run.write_json("progress.json", Progress(checked="2026-11-22T00:00:00Z", quiet_s=700, no_step_s=700).model_dump())
    with (run.path / "stderr.log").open("a") as file:
        file.write("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-22T00:00:00 DUE TO TIME LIMIT ***\n")
    assert wait(run).ending is Ending.HUNG


def test_the_time_in_which_a_job_was_suspended_is_no_silence(tmp_path: Path) -> None:
    """Its log is old when it is cancelled; its watchdog counted what it lived."""
    run = ranks(tmp_path, "85.5")
    until(lambda: run.read(PROGRESS, Progress) is not None)
    cancel(run)
    observe([run])
    run.write_json("progress.json", Progress(checked="2026-11-22T00:00:00Z", quiet_s=5, no_step_s=5).model_dump())
    for log in run.logs:
        os.utime(log, (1, 1))
    assert wait(run).ending is Ending.CANCELLED


def test_a_script_run_by_hand_is_not_watched(tmp_path: Path) -> None:
    """Its output may be a terminal: a log that does not grow says nothing."""
    spec = tiny("cluster.python=/bin/true", "cluster.step_deadline_s=1")
    (tmp_path / "job.sh").write_text(render(spec)["job.sh"])
    (tmp_path / "probe.sh").write_text("sleep 3")
    env = {name: value for name, value in os.environ.items() if name != "BENCHRUN_RUN_DIR"}
    result = subprocess.run(["bash", "job.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert "no deadline without a step" in result.stderr
    assert not (tmp_path / "progress.json").exists()


def test_the_watchdog_never_fails_a_job(tmp_path: Path) -> None:
    program = "mkdir progress.json.tmp; rm -f progress.json; mv stdout.log away; sleep 4; exit 6"
    run = start(tmp_path, program, "cluster.step_deadline_s=8")
    assert wait(run, 40).exit_code == 6
    assert printed(run) == ""
    assert left(run) == []


@pytest.mark.parametrize("cluster", ["local", "slurm-cpu"])
def test_a_script_with_a_deadline_is_sound_shell(tmp_path: Path, cluster: str) -> None:
    overrides = ("cluster.step_deadline_s=600",)
    script = tmp_path / "job.sh"
    script.write_text(render(resolve(Request("tiny-llama", "CPU", "fp32", 2, None, cluster, overrides)))["job.sh"])
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        result = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout
