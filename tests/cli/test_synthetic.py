"""A run on synthetic data: made in the job, read by megatron-core's own data set, learnt to its known floor."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from test_contract import call, document

pytestmark = pytest.mark.train
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")
POINT = ("tiny-llama-learnable", "--precision", "fp32", "--num-gpus")


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path], list[CompletedProcess]]:
    folder = tmp_path_factory.mktemp("learnt")
    beside = {"2": (), "1": ("--set", "training.breakdown=true")}  # which must not change what is trained on
    results = [call("launch", *POINT, num, *more, "--wait", cwd=folder) for num, more in beside.items()]
    return folder, [folder / "results" / "runs" / result.stdout.splitlines()[0] for result in results], results


def test_the_loss_falls_to_the_floor_of_the_data(launched: tuple[Path, list[Path], list[CompletedProcess]]) -> None:
    folder, runs, results = launched
    assert [result.returncode for result in results] == [0, 0], results
    for run in runs:
        data = json.loads((run / "data.json").read_text())
        metrics = json.loads((run / "metrics.json").read_text())
        floor = data["facts"]["floor_loss"]
        assert metrics["first_loss"] > 3 * floor
        assert floor * 0.9 < metrics["final_loss"] < floor * 1.1
        # The reference of this recipe is that floor.
        checks = document("compare", run.name, "--json", cwd=folder)["checks"]
        losses = [check for check in checks if check["metric"] == "final_loss"]
        assert losses and losses[0]["reference"]["value"] == pytest.approx(floor, abs=1e-4)


def test_the_run_names_its_data_and_carries_the_manifest(
    launched: tuple[Path, list[Path], list[CompletedProcess]],
) -> None:
    folder, (run, _), _ = launched
    spec = json.loads((run / "spec.json").read_text())
    manifest = json.loads((run / "data.json").read_text())
    said = {**spec["data"]["synthetic"], "vocab_size": spec["model"]["vocab_size"], "shards": 1}
    assert manifest["parameters"] == said
    made = list((folder / "results" / "data").glob("*/tokens.json"))
    assert [path.read_text() for path in made] == [(run / "data.json").read_text()]


def test_it_is_made_once(launched: tuple[Path, list[Path], list[CompletedProcess]]) -> None:
    _, (first, second), _ = launched
    assert "made in" in (first / "stdout.log").read_text()
    assert "was there already" in (second / "stdout.log").read_text()


def test_every_rank_count_reads_the_same_samples(launched: tuple[Path, list[Path], list[CompletedProcess]]) -> None:
    _, runs, _ = launched
    losses = [[json.loads(row)["loss"] for row in (run / "steps.jsonl").read_text().splitlines()] for run in runs]
    assert len(losses[0]) == 100
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_data_that_was_damaged_ends_the_job_with_a_reason(
    launched: tuple[Path, list[Path], list[CompletedProcess]],
) -> None:
    folder, _, _ = launched
    data = next((folder / "results" / "data").glob("*/tokens.bin"))
    whole = data.read_bytes()
    data.write_bytes(whole[:1000])
    try:
        result = call("launch", *POINT, "1", "--wait", cwd=folder)
    finally:
        data.write_bytes(whole)
    assert result.returncode != 0
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    assert "tokens.bin has 1000 bytes" in (run / "stderr.log").read_text()
    assert not (run / "steps.jsonl").exists() or not (run / "steps.jsonl").read_text()


@pytest.mark.thorough
def test_instruction_data_goes_through_the_fine_tune(tmp_path: Path) -> None:
    """A tokenizer and conversations made in the job, read by transformers; the same job packs nothing by hand."""
    pytest.importorskip("peft", reason="fine-tuning needs pip install '.[hf]'")
    point = ("tiny-llama-sft", "--precision", "fp32", "--num-gpus", "1", "--set", "data.kind=synthetic")
    result = call("launch", *point, "--wait", cwd=tmp_path)
    run = tmp_path / "results" / "runs" / result.stdout.splitlines()[0]
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["num_steps"], metrics["problems"]) == (20, [])
    assert metrics["final_loss"] < 0.75 * metrics["first_loss"]
    spec = json.loads((run / "spec.json").read_text())
    manifest = json.loads((run / "data.json").read_text())
    assert (manifest["kind"], manifest["parameters"]["format"]) == ("sft", "chat")
    assert manifest["facts"]["samples"] == spec["data"]["instructions"]["samples"]
    (made,) = (tmp_path / "results" / "data").iterdir()
    assert json.loads((made / "tokenizer" / "manifest.json").read_text())["parameters"]["vocab_size"] == 512
