"""Every way a job can end has one name, and nothing falls through."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FakeSlurm
from hypothesis import given
from hypothesis import strategies as st
from test_answers import DONE, end

from benchrun import api
from benchrun.jobs.create import create
from benchrun.jobs.endings import SILENT_S, Ending, classified_again, classify, symptoms
from benchrun.jobs.launcher import Observation, observe
from benchrun.jobs.scheduler import Job, Phase
from benchrun.jobs.slurm_text import phase_of
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import Done

# JOB STATE CODES of man squeue and man sacct, Slurm 22.05 to 26.05.
FINAL = {
    "BOOT_FAIL": Ending.NODE_FAILURE,
    "CANCELLED": Ending.CANCELLED,
    "COMPLETED": Ending.COMPLETED,
    "DEADLINE": Ending.TIMEOUT,
    "FAILED": Ending.FAILED,
    "LAUNCH_FAILED": Ending.LAUNCH_FAILED,
    "NODE_FAIL": Ending.NODE_FAILURE,
    "OUT_OF_MEMORY": Ending.OUT_OF_MEMORY_HOST,
    "PREEMPTED": Ending.PREEMPTED,
    "RECONFIG_FAIL": Ending.LAUNCH_FAILED,
    "REVOKED": Ending.CANCELLED,
    "TIMEOUT": Ending.TIMEOUT,
}
WAITING = ["PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"]
BUSY = ["RUNNING", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"]
PLANNED = {"steps_seen": 20, "steps_planned": 20}


def job(state: str, phase: Phase = Phase.ENDED, **facts: int | None) -> Job:
    return Job("1", phase, state, **facts)


@pytest.mark.parametrize(("state", "ending"), FINAL.items())
def test_a_final_state_is_an_ending(state: str, ending: Ending) -> None:
    assert phase_of(state) is Phase.ENDED
    assert classify(job(state), None, **PLANNED).ending is ending


@pytest.mark.parametrize("state", WAITING)
def test_a_waiting_state_is_no_ending(state: str) -> None:
    assert phase_of(state) is Phase.PENDING


@pytest.mark.parametrize("state", BUSY)
def test_a_busy_state_is_no_ending(state: str) -> None:
    assert phase_of(state) is Phase.RUNNING


@pytest.mark.parametrize("state", ["SUSPENDED", "STOPPED"])
def test_a_suspended_job_is_neither_running_nor_over(state: str) -> None:
    assert phase_of(state) is Phase.SUSPENDED


@pytest.mark.parametrize(
    ("facts", "done", "word"),
    [
        ({"exit_code": 0, "signal": 53}, None, "run directory"),
        ({}, 152, "ulimit -t"),
        ({}, 153, "ulimit -f"),
        ({"exit_code": 152}, None, "SIGXCPU"),
    ],
)
def test_a_number_that_says_nothing_by_itself_is_explained(facts: dict[str, int], done: int | None, word: str) -> None:
    script = None if done is None else Done(exit_code=done)
    end = classify(job("FAILED", **facts), script, **PLANNED)
    assert any(word in line for line in symptoms(end.evidence))


def test_what_sacct_cuts_or_adds_to_is_still_the_state() -> None:
    assert phase_of("OUT_OF_ME+") is Phase.ENDED
    assert phase_of("CANCELLED by 1000") is Phase.ENDED
    assert phase_of("RUNNING+") is Phase.RUNNING


@pytest.mark.parametrize(
    ("symptom", "ending"),
    [
        ("cuda_oom", Ending.OUT_OF_MEMORY_GPU),
        ("host_oom", Ending.OUT_OF_MEMORY_HOST),
        ("image_missing", Ending.IMAGE_MISSING),
        ("mount_failed", Ending.LAUNCH_FAILED),
        ("launch_failed", Ending.LAUNCH_FAILED),
        ("rank_crash", Ending.FAILED),
    ],
)
def test_the_log_says_why_a_job_failed(symptom: str, ending: Ending) -> None:
    end = classify(job("FAILED", exit_code=1), None, symptoms={symptom: "line 3", "rank_crash": "line 9"})
    assert end.ending is ending
    assert any(symptom in evidence for evidence in end.evidence)


def test_a_symptom_in_the_log_of_a_job_that_went_well_changes_nothing() -> None:
    assert (
        classify(job("COMPLETED", exit_code=0), None, symptoms={"cuda_oom": "x"}, **PLANNED).ending is Ending.COMPLETED
    )


def test_exit_code_0_with_steps_missing_is_incomplete() -> None:
    end = classify(job("COMPLETED", exit_code=0), None, steps_seen=19, steps_planned=20)
    assert end.ending is Ending.INCOMPLETE
    assert "19 of 20 steps" in end.evidence


@pytest.mark.parametrize(("cut", "ending"), [(0, Ending.COMPLETED), (1, Ending.INCOMPLETE)])
def test_where_a_framework_counts_from_0_the_last_step_is_one_less_than_planned(
    tmp_path: Path, cut: int, ending: Ending
) -> None:
    spec = resolve(Request("llama3.1-8b", "H100", "fp8", 8, "nemo2", overrides=("training.steps=20",)))
    run = create(tmp_path, spec, render(spec))
    rows = [
        f"Training epoch 0, iteration {n}/19 | lr: 3e-05 | train_step_timing in s: 5.01 | consumed_samples: {n + 1}\n"
        for n in range(20 - cut)
    ]
    (run.path / "stdout.log").write_text("".join(rows))
    end = api.record_end(Observation(run, job("COMPLETED", exit_code=0), over=True))
    assert end.ending is ending
    assert ("19 of 20 steps" in end.evidence) == bool(cut)


def test_a_restarted_job_is_requeued_whoever_says_so() -> None:
    assert classify(job("COMPLETED", restarts=1), None, **PLANNED).ending is Ending.REQUEUED
    assert classify(job("COMPLETED"), Done(exit_code=0, restarts=1), **PLANNED).ending is Ending.REQUEUED


def test_without_accounting_the_jobs_own_word_counts() -> None:
    gone = job("UNKNOWN", Phase.GONE)
    assert classify(gone, Done(exit_code=0), **PLANNED).ending is Ending.COMPLETED
    assert classify(gone, Done(exit_code=7)).exit_code == 7
    assert classify(gone, Done(exit_code=7)).ending is Ending.FAILED
    lost = classify(gone, None)
    assert (lost.ending, lost.final) == (Ending.LOST, False)


@pytest.mark.parametrize("symptoms", [{}, {"preempted": "a line of the first life"}])
def test_a_forgotten_job_that_was_signalled_in_its_second_life_may_have_been_lost(
    symptoms: dict[str, str],
) -> None:
    done = Done(exit_code=143, signal="TERM", restarts=1)
    assert not classify(job("UNKNOWN", Phase.GONE), done, symptoms=symptoms, **PLANNED).final
    assert classify(job("FAILED"), done, symptoms=symptoms, **PLANNED).final


def test_a_job_whose_limit_ended_a_long_silence_was_hung() -> None:
    assert classify(job("TIMEOUT"), None, quiet_s=SILENT_S).ending is Ending.HUNG
    assert classify(job("TIMEOUT"), None, quiet_s=SILENT_S - 1).ending is Ending.TIMEOUT
    assert classify(job("FAILED"), None, quiet_s=SILENT_S).ending is Ending.FAILED


@given(
    state=st.one_of(
        st.sampled_from([*FINAL, *WAITING, *BUSY, "UNKNOWN", "", "NEW_WORD_OF_SLURM_30"]), st.text(max_size=9)
    ),
    phase=st.sampled_from(Phase),
    code=st.none() | st.integers(0, 255),
    done=st.none() | st.builds(Done, exit_code=st.integers(0, 255), restarts=st.integers(0, 2)),
    symptoms=st.dictionaries(st.sampled_from(["cuda_oom", "host_oom", "xid", "nan_loss"]), st.text(max_size=5)),
    seen=st.integers(0, 50),
)
def test_every_combination_has_an_ending_and_evidence(
    state: Any, phase: Any, code: Any, done: Any, symptoms: Any, seen: Any
) -> None:
    end = classify(job(state, phase, exit_code=code), done, symptoms=symptoms, steps_seen=seen, steps_planned=50)
    assert isinstance(end.ending, Ending)
    assert end.evidence
    if end.ending is Ending.COMPLETED:
        assert seen >= 50
        assert not (done and done.exit_code)


def test_a_job_that_was_preempted_and_ran_again_was_requeued() -> None:
    """Accounting may still list its first life alone."""
    job = Job("7", Phase.ENDED, "PREEMPTED", 0)
    again = Done(job_id="7", exit_code=0, restarts=1)
    assert classify(job, again, steps_seen=20, steps_planned=20).ending is Ending.REQUEUED
    assert classify(job, again.model_copy(update={"restarts": 0})).ending is Ending.PREEMPTED


@pytest.mark.parametrize("state", FINAL)
@pytest.mark.parametrize("done", [None, Done(exit_code=1, signal="TERM", restarts=1), Done(exit_code=0, no_step_s=90)])
@pytest.mark.parametrize("quiet_s", [0.0, SILENT_S + 1.0])
def test_an_ending_follows_again_from_its_evidence(state: str, done: Done | None, quiet_s: float) -> None:
    seen: dict[str, Any] = {"symptoms": {"oom_gpu": "CUDA out of memory"}, "steps_seen": 3, "steps_planned": 20}
    last = Job("1", Phase.ENDED, state, exit_code=1, signal=9, reason="NodeFail", restarts=2)
    for each in (last, job(state)):
        end = classify(each, done, quiet_s=quiet_s, **seen)
        assert classified_again(end.evidence, **seen) == end


# What done.json says of a job, and what it cannot say.


def test_done_json_of_another_job_is_no_end(slurm: FakeSlurm, make: Callable[..., Any]) -> None:
    run = make("8")
    run.write_json("done.json", DONE)
    assert not observe([run])[0].over


@pytest.mark.parametrize(
    ("words", "ending", "final"),
    [
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 ***", Ending.CANCELLED, True),
        ("*** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***", Ending.TIMEOUT, True),
        ("", Ending.FAILED, False),
    ],
)
def test_a_script_that_was_ended_from_outside_does_not_know_why(
    slurm: FakeSlurm, make: Callable[..., Any], words: str, ending: Ending, final: bool
) -> None:
    run = make()
    run.write_json("done.json", {**DONE, "exit_code": 143, "signal": "TERM"})
    (run.path / "stderr.log").write_text(f"{words}\n")
    found = end(run)
    assert (found.ending, found.final) == (ending, final)
