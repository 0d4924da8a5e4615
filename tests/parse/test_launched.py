"""A job states what it launched: its log, without the run directory, gives the numbers that the run has."""

import json
import lzma
import subprocess

import kept_runs
import pytest

from benchrun import kept, paths
from benchrun.errors import UserError
from benchrun.frameworks.logs import Reader
from benchrun.frameworks.registry import framework
from benchrun.logs import Log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.render import render
from benchrun.rundir.artifacts import JOB
from benchrun.rundir.folder import RunDir
from benchrun.runspec.launched import LAUNCHED, Launched
from benchrun.runspec.spec import TrainingSpec
from benchrun.usecases.judgement import judge_log
from benchrun.usecases.measurement import measure_run


def other_frameworks() -> list[RunDir]:
    """A measured run of each model and framework that prints its own log."""
    chosen = {}
    for run, entry in kept.entries(paths.MEASURED).items():
        if entry["workload"] == "training" and not framework(entry["framework"]).own_worker:
            chosen[entry["framework"], entry["recipe"]] = run
    return [RunDir(kept_runs.folder(run)) for run in chosen.values()]


RUNS = other_frameworks()


def output(run: RunDir) -> bytes:
    return b"".join(lzma.decompress(path.read_bytes()) for path in run.logs)


def read(*parts: bytes) -> Log:
    reader = Reader()
    for part in parts:
        reader.feed(part)
    reader.end()
    return reader.log("stdout.log")


def line(run: RunDir) -> bytes:
    assert isinstance(run.spec, TrainingSpec)
    return Launched.line(run.spec).encode() + b"\n"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.spec.framework}-{run.spec.recipe}")
def test_the_log_alone_gives_the_numbers_of_the_run(run: RunDir) -> None:
    alone, measured = summarise(read(line(run), output(run))), measure_run(run)
    assert measured is not None
    for name in ("framework", "gpu", "num_gpus", "precision", "planned_steps", "complete", "tokens_per_s_per_gpu"):
        assert getattr(alone, name) == getattr(measured.metrics, name), name
    assert alone.mfu == measured.metrics.mfu
    assert alone.seq_length == run.spec.seq_length
    assert alone.layout["tp"] == run.spec.layout.tp
    assert {problem.kind for problem in alone.problems} == {problem.kind for problem in measured.metrics.problems}


def test_the_job_prints_that_line() -> None:
    run = next(run for run in RUNS if run.spec.framework == "nemo2")
    (echo,) = [text for text in render(run.spec)[JOB].splitlines() if text.startswith("echo ") and LAUNCHED in text]
    assert subprocess.run(["bash", "-c", echo], capture_output=True, check=True).stdout == line(run)


def test_a_worker_states_its_own_configuration() -> None:
    entries = kept.entries(paths.MEASURED)
    own = RunDir(kept_runs.folder(next(run for run in entries if entries[run]["framework"] == "megatron-core")))
    assert LAUNCHED not in render(own.spec)[JOB]


def test_a_cut_line_states_nothing() -> None:
    run = next(run for run in RUNS if run.spec.framework == "nemo2")
    for end in range(len(LAUNCHED), len(line(run)) - 2):
        assert read(line(run)[:end] + b"\n").launched is None
    assert summarise(read(line(run)[:-20] + b"\n", output(run))).precision is None


def test_what_the_framework_prints_counts_first() -> None:
    run = next(run for run in RUNS if run.spec.framework == "megatron-lm")
    stated = json.loads(line(run).decode().removeprefix(LAUNCHED))
    other = LAUNCHED + json.dumps({**stated, "num_gpus": 64, "seq_length": 1024, "of_a_later_version": 1}) + "\n"
    log = read(other.encode(), output(run))
    assert log.launched is not None
    assert (log.facts.num_gpus, log.facts.seq_length) == (run.spec.num_gpus, run.spec.seq_length)


def test_another_training_in_the_same_file_is_not_what_was_launched() -> None:
    run = next(run for run in RUNS if run.spec.framework == "nemo2")
    once, twice = line(run) + output(run), line(run) + output(run) + output(run)
    assert read(once).launched is not None
    assert any(problem.kind == "second_training" for problem in read(twice).problems)
    assert read(twice).launched is None
    assert read(once, once).launched is not None


def test_a_log_of_another_model_is_no_run_of_the_recipe() -> None:
    run = next(run for run in RUNS if (run.spec.framework, run.spec.recipe) == ("nemo2", "llama3.1-8b"))
    log = read(line(run), output(run))
    verdict, metrics = judge_log(log, "llama3.1-8b", Setting())
    assert metrics.num_gpus == run.spec.num_gpus
    assert verdict.verdict != "invalid"
    with pytest.raises(UserError, match="hidden_size"):
        judge_log(log, "llama3.1-70b", Setting())
