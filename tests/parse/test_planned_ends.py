"""A program's own last words decide whether a run reached its planned end."""

import json
from pathlib import Path

import pytest
from test_causes import STEPS, frames, summary


def mllog(key: str, **metadata: object) -> str:
    return ":::MLLOG " + json.dumps({"time_ms": 5000, "key": key, "value": None, "metadata": metadata})


TIMINGS = [
    ":::MLLOG "
    + json.dumps({"time_ms": 5000 * n, "key": "tracked_stats", "value": {"train_step_time": 0.5, "train_loss": 4 - n},
                  "metadata": {"step": 10 * n}})
    for n in range(1, 4)
]  # fmt: skip
LATE = ["Exception in thread Thread-9 (_loop):", *frames(2), "ConnectionResetError: [Errno 104] Connection reset"]


@pytest.mark.parametrize(
    ("status", "after", "fatal"),
    [("success", [], None), ("success", LATE, None), ("aborted", [], "early_end"), ("aborted", LATE, "rank_crash")],
)
def test_the_last_words_of_mlperf_decide_the_ending(
    tmp_path: Path, status: str, after: list[str], fatal: str | None
) -> None:
    found = summary(tmp_path, [mllog("init_start"), *TIMINGS, mllog("run_stop", status=status), *after])
    assert (found.fatal and found.fatal.kind) == fatal


UNKNOWN = ["[n1:0:42 - context.c:601] ERROR sharp_create_job failed: No Aggregation Manager detected(-52)"]


@pytest.mark.parametrize(
    ("before", "after"),
    [(UNKNOWN, []), ([], UNKNOWN), ([], LATE), ([], ["srun: error: n1: task 3: Segmentation fault (core dumped)"])],
)
def test_errors_of_an_unknown_program_that_says_it_is_done_are_no_cause(
    tmp_path: Path, before: list[str], after: list[str]
) -> None:
    done, broken = (
        summary(tmp_path, [*before, mllog("run_stop", status=status), *after]) for status in ("success", "aborted")
    )
    assert (done.fatal, broken.fatal is None) == (None, False)
    assert "finished" not in {each.kind for each in done.problems}


def test_a_run_of_mlperf_that_began_and_did_not_stop_is_unfinished(tmp_path: Path) -> None:
    lines = [mllog("init_start"), mllog("run_start"), *TIMINGS]
    cut, whole = summary(tmp_path, lines), summary(tmp_path, [*lines, mllog("run_stop", status="success")])
    assert (cut.complete, cut.fatal and cut.fatal.kind) == (False, "early_end")
    assert whole.fatal is None


@pytest.mark.parametrize(
    ("words", "complete"), [([], False), (["[after training is done] datetime: 2026-01-05"], True)]
)
def test_a_run_that_says_it_is_done_is_complete(tmp_path: Path, words: list[str], complete: bool) -> None:
    lines = [step.replace("/      50", "/       9") for step in STEPS]
    found = summary(tmp_path, [*lines, *words])
    assert (found.complete, found.fatal is None) == (complete, complete)


@pytest.mark.parametrize(
    ("words", "complete"),
    [
        ("exiting program at iteration 50 datetime: 2026-11-01 11:00:00", True),
        ("exiting program after 20.1 minutes datetime: 2026-11-01 11:00:00", True),
        ("exiting program after receiving SIGTERM.", False),
    ],
)
def test_an_end_that_the_options_order_is_one(tmp_path: Path, words: str, complete: bool) -> None:
    lines = [step.replace("/      50", "/   50000") for step in STEPS]
    found = summary(tmp_path, [*lines, words])
    assert (found.complete, found.fatal is None) == (complete, complete)
    if complete:
        assert found.planned_steps == found.last_step
        went_on = summary(tmp_path, [*lines, words, *lines])
        assert (went_on.complete, went_on.planned_steps) == (False, 50000)


def torchtitan(last: int, *words: str) -> list[str]:
    """Steps up to ``last`` of 40, every other one printed, and the last ``words``."""
    head = "[rank0]:[titan] 2026-05-05 11:07:15,162 - root - INFO - "
    batch = "local batch size 1, global batch size 8, gradient accumulation steps 1, sequence length 4096"
    step = "step: {0:2}  loss:  4.0{0}  memory: 9.00GiB(9.00%)  tps: 4,4{0:02}  tflops: 26.87  mfu: 1.0%"
    rows = [step.format(number) for number in range(2, last + 1, 2)]
    lines = [f"Trainer is initialized with {batch}, total steps 40 (warmup 2)", "Training starts at step 1"]
    return [head + line for line in (*lines, *rows, *words)]


@pytest.mark.parametrize(
    ("last", "words", "complete"),
    [
        (20, [], False),
        (20, ["Training completed"], None),  # its data end there
        (40, [], None),
        (40, ["Training completed"], None),
    ],
)
def test_torchtitan_that_breaks_off_did_not_reach_its_total(
    tmp_path: Path, last: int, words: list[str], complete: bool | None
) -> None:
    found = summary(tmp_path, torchtitan(last, *words))
    early = any(problem.kind == "early_end" for problem in found.problems)
    assert (found.complete, early) == (complete, complete is False)
    assert (found.last_step, found.planned_steps) == (last, 40 if early else None)


def test_what_a_teardown_raises_after_torchtitan_has_completed_is_late(tmp_path: Path) -> None:
    found = summary(tmp_path, torchtitan(40, "Training completed", *LATE))
    assert found.fatal is None
