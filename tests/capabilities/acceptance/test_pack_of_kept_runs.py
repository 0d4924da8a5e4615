"""A pack of real runs on two H200: telemetry, a measured reference, and throttling are computed again too."""

import json
import shutil
from pathlib import Path
from typing import Any

import kept_runs
import pytest
from tampering import edit, edit_json, fix_manifest

from benchrun import api
from benchrun.capabilities.acceptance import pack
from benchrun.capabilities.studies.state import StudyDir
from benchrun.judge.measured import load_measured
from benchrun.rundir.folder import RunDir

IDENTITY = "2c0cb897"
OPTIMIZER = {"precision_aware": True, "exp_avg": "bf16", "exp_avg_sq": "bf16"}
RUN = {
    **{"recipe": "llama3.1-8b", "gpu": "H200", "precision": "fp8", "num_gpus": 2, "framework": "megatron-core"},
    "set": {"mbs": 2, "gbs": 32, "training.steps": 6, "training.optimizer": OPTIMIZER},
}
CRITERIA = {
    "at_least": {"mfu_percent": 40, "tokens_per_joule": 20},
    "at_most": {"peak_memory_gib": 130},
    "max_below_reference_percent": 3,
    "max_spread_percent": 0.1,
    "max_throttled_runs": 0,
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: Any) -> Path:
    """The pack of three kept runs, as if a plan had launched them."""
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    document = {"description": "two H200", "cluster": "hgx-h200", "runs": [RUN], "criteria": CRITERIA}
    (tmp_path / "two.yaml").write_text(json.dumps(document))
    plan = api.plan_acceptance(str(tmp_path / "two.yaml"))
    directory = StudyDir(plan.study.expanded.name)
    directory.path.mkdir(parents=True)
    stored = [run for run in load_measured() if run.spec.identity() == IDENTITY]
    for slot, run in zip(plan.study.slots, stored[:3], strict=True):
        place = directory.root / run.name
        shutil.copytree(kept_runs.folder(run.name), place)
        directory.record(slot, RunDir(place.resolve()))
    return api.write_pack(plan, tmp_path / "pack", packs=tmp_path).path


def test_every_criterion_is_computed_again(root: Path) -> None:
    verification = api.verify_pack(root)
    assert verification.reasons == ()
    assert verification.acceptance is not None and verification.acceptance.verdict == "accepted"
    measured = {each.criterion: each.measured for each in verification.acceptance.criteria}
    assert measured["at_least mfu_percent"] == pytest.approx(41.07, abs=0.01)
    assert measured["max_below_reference_percent"] == pytest.approx(1.9, abs=1)  # more runs of it may be kept
    assert json.loads((root / pack.REFERENCES).read_text())[0]["id"].startswith("measured:llama3.1-8b")
    assert len(list(root.glob("runs/*/telemetry/node1.csv.xz"))) == 3


def test_a_digit_in_the_telemetry_and_a_lower_ceiling(root: Path) -> None:
    edit(next(root.glob("runs/*/telemetry/node1.csv.xz")), lambda text: text.replace(", 7", ", 1"))
    edit_json(next(root.glob("runs/*/ceilings.json")), lambda ceilings: ceilings["gemms"][0]["tflops"].clear())
    fix_manifest(root)
    reasons = api.verify_pack(root).reasons
    assert {(reason.kind, Path(reason.file).name) for reason in reasons} >= {("numbers", "metrics.json")}


def test_a_run_of_another_point_of_the_same_recipe(root: Path) -> None:
    edit(root / pack.PLAN, lambda text: text.replace("training.steps: 6", "training.steps: 7"))
    fix_manifest(root)
    found = api.verify_pack(root).reasons
    assert [reason.kind for reason in found].count("run") == 3


def test_runs_of_points_that_are_no_longer_planned_do_not_count(root: Path) -> None:
    plan = root.parent / "two.yaml"
    assert {number: len(runs) for number, runs in api.runs_of(api.plan_acceptance(str(plan))).items()} == {1: 3}
    edit(plan, lambda text: text.replace('"training.steps": 6', '"training.steps": 7'))
    assert api.runs_of(api.plan_acceptance(str(plan))) == {}
