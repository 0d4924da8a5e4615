"""From recipe to verdict on this machine, with real training."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from test_contract import call, document

from benchrun.rundir import artifacts

pytestmark = pytest.mark.train
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

FILES = {
    "spec.json", "job.sh", "probe.sh", "events.jsonl", "stdout.log", "stderr.log", "done.json", "ending.json",
    "progress.json", "env.json", "steps.jsonl", "metrics.json", "verdict.json", "ceilings.json", "breakdown.json",
    "ranks.json", "host.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess]:
    folder = tmp_path_factory.mktemp("way")
    beside = ("--set", "training.ceilings=true", "--set", "training.breakdown=true")
    result = call("launch", "tiny-llama", "--precision", "fp32", "--num-gpus", "2", *beside, "--wait", cwd=folder)
    return folder, result


def test_launch_wait_ends_in_a_verdict(launched: tuple[Path, CompletedProcess]) -> None:
    _, result = launched
    assert result.returncode == 0, result.stderr
    assert "PASS  tiny-llama, fp32, 2 x CPU" in result.stdout
    assert "matmul at ceiling would take" in result.stdout


def test_every_step_of_the_way_leaves_its_file(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    assert {path.name for path in run.iterdir() if path.is_file()} - {
        "local.json",
    } == FILES
    assert all(
        json.loads((run / name).read_text())["schema_version"] == (2 if name == "spec.json" else 1)
        for name in FILES
        if name.endswith(".json")
    )
    assert {path.name for path in run.iterdir()} <= set(artifacts.FILES)
    env = json.loads((run / "env.json").read_text())
    assert env["worker"]["megatron-core"]
    assert env["nodes"][0]["cpus"] == len(os.sched_getaffinity(0))  # whatever OMP_NUM_THREADS says
    assert len((run / "steps.jsonl").read_text().splitlines()) == 20


def test_every_later_step_can_be_done_again_from_the_files(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    before = {name: (run / name).read_text() for name in ("metrics.json", "verdict.json")}
    for name in before:
        (run / name).unlink()
    assert document("compare", run.name, "--json", cwd=folder) == json.loads(before["verdict.json"])
    assert {name: (run / name).read_text() for name in before} == before


def test_status_and_report_know_the_run(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = result.stdout.splitlines()[0]
    row = document("status", "--json", cwd=folder)[0]
    assert (row["run_id"], row["state"], row["last_step"], row["planned_steps"]) == (run, "completed", 20, 20)
    page = call("report", run, cwd=folder).stdout
    assert page.startswith(f"# {run}\n\n**pass**")
    assert "| tokens/s/GPU |" in page
    table = call("report", "--format", "csv", cwd=folder).stdout.splitlines()
    assert table[0].startswith("recipe,framework,gpu")
    assert table[1].startswith("tiny-llama,megatron-core,CPU")


def test_parse_of_the_log_says_what_the_metrics_say(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    summary = document("parse", run / "stdout.log", "--json")
    metrics = json.loads((run / "metrics.json").read_text())
    assert summary["complete"] is True
    assert summary["framework"] == "megatron-core"
    assert summary["step_time_s"] == metrics["step_time_s"]
    assert summary["tokens_per_s_per_gpu"] == metrics["tokens_per_s_per_gpu"]
    assert (summary["seq_length"], summary["global_batch_size"], summary["num_gpus"]) == (128, 8, 2)


def test_the_ceilings_are_those_of_this_model_and_these_ranks(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    found = json.loads((run / "ceilings.json").read_text())
    sizes = {each["name"]: (each["m"], each["n"], each["k"]) for each in found["gemms"]}
    assert sizes["fc1"] == (2 * 128, 2 * 176, 64)
    assert {number for each in found["gemms"] for number in each["tflops"]} == {"fp32", "bf16"}
    names = ["all_reduce", "all_gather", "reduce_scatter"]
    assert [(each["name"], each["group"], each["ranks"]) for each in found["collectives"]] == [
        (n, "dp", 2) for n in names
    ]
    assert 'benchrun ceilings: {"device":"cpu"' in (run / "stdout.log").read_text()


def test_the_breakdown_is_that_of_one_step_and_its_parts_add_up(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    found = json.loads((run / "metrics.json").read_text())["breakdown"]
    parts = [found[f"{name}_s"] for name in ("matmul", "attention", "other", "communication", "idle")]
    assert sum(parts) == pytest.approx(found["step_s"], rel=1e-3)
    assert found["matmul_s"] > 0 and found["communication_s"] > 0
    log = (run / "stdout.log").read_text()
    assert log.index("benchrun done") < log.index("benchrun breakdown")  # not one of the measured steps


def test_what_is_kept_gives_the_same_numbers_elsewhere(launched: tuple[Path, CompletedProcess]) -> None:
    folder, result = launched
    run = folder / "results" / "runs" / result.stdout.splitlines()[0]
    assert "kept " in call("report", run.name, "--keep", "kept", cwd=folder).stderr
    kept = folder / "kept" / run.name
    metrics = json.loads((kept / "metrics.json").read_text())
    host = f'"{os.uname().nodename}"'
    assert metrics == json.loads((run / "metrics.json").read_text().replace(host, '"node1"'))
    assert host not in (kept / "ranks.json").read_text()
    assert document("compare", kept, "--json") == json.loads((run / "verdict.json").read_text())
    assert str(folder) not in (kept / "spec.json").read_text()
