"""Causes that tests/bench/causes injected into real runs on one H200 and on CPUs are named: the records of 44 runs.

`injected.tar.xz` has WHERE/CASE/RUN as `benchrun report RUN --keep` writes it, without the traces: their fingerprints
are there. The runs on CPUs shared two cores with other processes.
"""

import sys
import tarfile
from pathlib import Path

import pytest
from selection import some

sys.path.insert(0, str(Path(__file__).parents[2] / "bench/causes"))

import run as bench

ARCHIVE = Path(__file__).with_name("injected.tar.xz")
CASES = {(case.where, case.name): case for case in bench.cases()}
with tarfile.open(ARCHIVE) as archive:
    KEPT = sorted({tuple(Path(name).parts[:2]) for name in archive.getnames() if len(Path(name).parts) > 2})
UNNAMED = {("cpu", name) for name in ("busy_core", "log_steps", "save_files", "turns", "uneven_stages")}
"""Only the worker's records of ranks and hosts show these on CPUs."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the kept runs."""
    folder = tmp_path_factory.mktemp("injected")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(("where", "name"), some(KEPT, 10))
def test_the_right_cause_comes_first_in_every_way(where: str, name: str, runs: Path, tmp_path: Path) -> None:
    (run,) = (runs / where / name).iterdir()
    answers = dict(bench.judged(CASES[where, name], run, tmp_path))
    expected = {way: not (way == bench.ALONE and (where, name) in UNNAMED) for way in answers}
    assert answers == expected
    assert len(answers) >= (2 if where == "cpu" else 3)


@pytest.mark.train
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["slow_loader", "checkpoints"])
def test_the_right_cause_comes_first_in_a_new_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs pip install '.[train]'")
    pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")
    case = CASES["cpu", name]
    run = bench.made(case, bench.POINTS["cpu"], tmp_path)
    document = bench.explained(run)
    assert bench.right(case, document), bench.shown(document)
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
    assert not bench.right(CASES["cpu", "slow_rank"], {"step_time_s": 1.0, "causes": []})
    cause = {"cause": "slow_rank", "rank": 0, "seconds": 0.5, "kind": "fault"}
    assert not bench.right(CASES["cpu", "slow_rank"], {"step_time_s": 1.0, "causes": [cause]})
    assert not bench.right(CASES["cpu", "healthy"], {"step_time_s": 1.0, "causes": [cause]})
    assert bench.right(CASES["cpu", "healthy"], {"step_time_s": 1.0, "causes": [{**cause, "kind": "choice"}]})
