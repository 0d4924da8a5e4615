"""Profiled runs on this machine: real training, a real trace, and the measured steps as without it."""

import gzip
import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from test_contract import call, document

pytestmark = pytest.mark.train
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

POINT = ("tiny-llama", "--precision", "fp32", "--num-gpus", "2")
STEPS = 12


def trace(file: Path) -> dict[str, Any]:
    with gzip.open(file) as text:
        return json.load(text)


def launch(folder: Path, *words: str) -> tuple[CompletedProcess, Path]:
    result = call(*words, "--set", f"training.steps={STEPS}", "--wait", cwd=folder)
    return result, folder / "results" / "runs" / result.stdout.splitlines()[0]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompletedProcess, Path]:
    asked = ("--set", "profile.steps=2", "--set", "profile.ranks=[1]", "--set", "training.breakdown=true")
    return launch(tmp_path_factory.mktemp("profiled"), "launch", *POINT, "--profile", "kineto", *asked)


def test_the_run_leaves_a_trace_of_the_profiled_rank_alone(profiled: tuple[CompletedProcess, Path]) -> None:
    _, run = profiled
    assert [file.name for file in (run / "profile").iterdir()] == ["rank1.json.gz"]
    content = trace(run / "profile" / "rank1.json.gz")
    assert (content["distributedInfo"]["rank"], content["distributedInfo"]["world_size"]) == (1, 2)
    events = [event for event in content["traceEvents"] if event.get("ph") == "X"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
    assert len({event["name"] for event in steps}) == 2
    products = [event for event in events if event["name"] == "aten::mm"]
    # Two steps of two micro-batches: four products in each of four layers and the output, forward and twice backward.
    assert len(products) == 2 * 2 * (4 * 4 + 1) * 3
    assert all(event["args"]["Input Dims"] for event in products)
    assert any(event["name"] == "gloo:all_reduce" for event in events)
    assert sum(event["name"].startswith("Optimizer.step#") for event in events) == 2


def test_profiled_steps_are_in_no_number(profiled: tuple[CompletedProcess, Path]) -> None:
    result, run = profiled
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["num_steps"], metrics["planned_steps"], metrics["profiled_after"]) == (STEPS, STEPS, STEPS)
    assert metrics["complete"] is True and metrics["fatal"] is None
    profiled_step = metrics["breakdown"]
    assert profiled_step["step_s"] > 0  # after the profiled steps, by a profiler of its own
    assert len(profiled_step["communication_of_ranks_s"]) == len(profiled_step["data_of_ranks_s"]) == 2
    assert max(profiled_step["data_of_ranks_s"]) < profiled_step["step_s"]
    assert len(profiled_step["queued_of_ranks_s"]) == 2
    assert "of_ranks" not in (run / "stdout.log").read_text().split("benchrun breakdown:")[1]
    assert f"the steps after {STEPS}, which are left out" in result.stdout
    spec = json.loads((run / "spec.json").read_text())
    assert (spec["profile"]["tool"], spec["profiled_steps"]) == ("kineto", [STEPS + 2, STEPS + 3])
    parsed = document("parse", run / "stdout.log", "--json")
    assert parsed["step_time_s"] == metrics["step_time_s"]
    row = document("status", run.name, "--json", cwd=run.parents[2])[0]
    assert (row["state"], row["last_step"], row["planned_steps"]) == ("completed", STEPS, STEPS)


@pytest.mark.thorough
def test_the_measured_steps_compute_the_same_as_without_a_profile(
    profiled: tuple[CompletedProcess, Path], tmp_path: Path
) -> None:
    _, run = profiled
    _, plain = launch(tmp_path, "launch", *POINT)
    assert not (plain / "profile").exists()
    losses = [
        [json.loads(line)["loss"] for line in (each / "steps.jsonl").read_text().splitlines()] for each in (run, plain)
    ]
    assert losses[0] == losses[1]
    ids = [json.loads((each / "spec.json").read_text())["identity"]["hash"] for each in (run, plain)]
    assert ids[0] != ids[1]  # no repeat of each other


@pytest.mark.thorough
def test_the_verb_profile_records_a_fine_tune_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="training needs pip install '.[hf]'")
    point = ("tiny-llama-lora", "--precision", "fp32", "--num-gpus", "2", "--framework", "hf")
    asked = ("--set", "profile.ranks=[0, 1]", "--set", "training.breakdown=true")
    result, run = launch(tmp_path, "profile", *point, *asked)
    assert result.returncode in (0, 4), result.stderr
    assert sorted(file.name for file in (run / "profile").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    for rank in range(2):
        content = trace(run / "profile" / f"rank{rank}.json.gz")
        assert content["distributedInfo"]["rank"] == rank
        names = {event.get("name", "") for event in content["traceEvents"]}
        assert len({name for name in names if name.startswith("ProfilerStep#")}) == 3
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["num_steps"], metrics["complete"], metrics["fatal"]) == (STEPS, True, None)
    explained = document("explain", run, "--json")
    parts = {part["part"]: part["seconds"] for part in explained["waterfall"]}
    assert sum(parts.values()) == pytest.approx(explained["step_time_s"], rel=1e-3)
    assert not [part for part in parts if part.startswith("not separated")]


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        (("launch", *POINT, "--profile", "nsys"), "profile.tool must be kineto on a CPU"),
        (("profile", *POINT, "--tool", "xplane"), "profile.tool could be kineto, none or nsys"),
        (("profile", *POINT, "--set", "profile.ranks=[2]"), "must be at most 1"),
    ],
)
def test_what_cannot_be_profiled_is_refused_before_anything_runs(
    words: tuple[str, ...], tool: str, tmp_path: Path
) -> None:
    result = call(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert tool in result.stderr and "error: --set profile." in result.stderr
    assert list(tmp_path.iterdir()) == []
