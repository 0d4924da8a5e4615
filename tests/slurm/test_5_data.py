"""Synthetic data under Slurm: two jobs on two nodes need the same data set, and it is made once."""

import json
from typing import Any

import pytest

pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")


def test_two_jobs_make_their_data_once(user: Any) -> None:
    # A data-loader process counts as much memory again as the rank that it was forked from.
    sets = ("cluster.partition=batch", "cluster.mem=3G", "training.steps=5")
    runs = [user.launch("tiny-llama-learnable", 1, *sets) for _ in range(2)]
    assert [user.wait(run, 180)["state"] for run in runs] == ["completed", "completed"]
    logs = [(user.runs / run / "stdout.log").read_text() for run in runs]
    assert sorted("was there already" in log for log in logs) == [False, True]
    manifests = {(user.runs / run / "data.json").read_text() for run in runs}
    assert len(manifests) == 1
    assert json.loads(manifests.pop())["parameters"]["tokens"] == 5 * 8 * 128 + 1
