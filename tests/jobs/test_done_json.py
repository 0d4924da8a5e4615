"""What done.json says of a job, and what it cannot say."""

from collections.abc import Callable
from typing import Any

import pytest
from conftest import FakeSlurm
from test_answers import DONE, end

from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import observe


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
