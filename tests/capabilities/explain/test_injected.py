"""Causes injected into real runs on CPUs are named: two of tests/bench/causes, which has them all."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench/causes"))

import run as bench  # noqa: E402

NAMES = ["slow_loader", "checkpoints"]
CASES = {case.name: case for case in bench.cases() if case.where == "cpu"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_the_right_cause_comes_first(name: str, tmp_path: Path) -> None:
    run = bench.made(CASES[name], bench.POINTS["cpu"], tmp_path)
    document = bench.explained(run)
    assert bench.right(CASES[name], document), bench.shown(document)
    assert sum(part["seconds"] for part in document["waterfall"]) == pytest.approx(document["step_time_s"], rel=1e-3)


def test_every_cause_has_right_names() -> None:
    names = {"data", "host", "slow_rank", "jitter", "checkpoint", "bubble", "memory_bound", "comm_bandwidth"}
    assert {name for case in bench.cases() for name in case.right} <= names | {
        "exposed_dp",
        "exposed_tp",
        "imbalance",
        "attention",
        "recompute",
    }
    assert all(case.name.startswith("healthy") for case in bench.cases() if not case.right)
    assert not bench.right(CASES["slow_rank"], {"step_time_s": 1.0, "causes": []})
    cause = {"cause": "slow_rank", "rank": 0, "seconds": 0.5, "kind": "fault"}
    assert not bench.right(CASES["slow_rank"], {"step_time_s": 1.0, "causes": [cause]})
    assert not bench.right(CASES["healthy"], {"step_time_s": 1.0, "causes": [cause]})
    assert bench.right(CASES["healthy"], {"step_time_s": 1.0, "causes": [{**cause, "kind": "choice"}]})
