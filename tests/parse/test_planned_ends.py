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


@pytest.mark.parametrize(
    ("words", "complete"), [([], False), (["[after training is done] datetime: 2026-01-05"], True)]
)
def test_a_run_that_says_it_is_done_is_complete(tmp_path: Path, words: list[str], complete: bool) -> None:
    lines = [step.replace("/      50", "/       9") for step in STEPS]
    found = summary(tmp_path, [*lines, *words])
    assert (found.complete, found.fatal is None) == (complete, complete)
