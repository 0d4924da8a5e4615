"""``--published``: every point with a published number that a site has the GPUs for, as one suite."""

import json
import shlex
from pathlib import Path

import pytest
from calling import call

from benchrun.capabilities.studies.published import plan_published
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references, matching
from benchrun.recipes.select import Request

SMALL = ("--gpu", "H100", "--max-gpus", "8")


def test_each_point_has_a_published_number_and_its_publishers_framework() -> None:
    planned = plan_published(Request("", gpu="h100"), 64, ("llama3.1-70b", "gpt3-5b", "llama3-8b-lora"))
    specs = [each.spec for each in planned.points if each.spec]
    assert len(specs) == len(planned.points) > 8
    for spec in specs:
        found = matching(conditions(spec), load_references())
        assert spec.gpu == "H100" and spec.num_gpus <= 64
        theirs = {entry.key.framework for entry in found if entry.key.recipe == spec.recipe} & {*FRAMEWORKS}
        assert not theirs or spec.framework in theirs, spec.summary
        assert found, spec.summary


def test_a_point_runs_in_the_image_of_its_recipe() -> None:
    (point,) = plan_published(Request("", gpu="H100", precision="fp8"), 64, ("llama3.1-70b",)).points[1:]
    assert point.spec
    assert point.spec.image == "nvcr.io/nvidia/nemo:26.04.01"


def test_options_narrow_the_suite_and_apply_to_every_point() -> None:
    request = Request("", gpu="CPU", precision="bf16", overrides=("training.steps=7",))
    planned = plan_published(request, 1)
    for each in planned.points:
        assert each.point.settings["precision"] == "bf16"
        assert each.spec is None or each.spec.planned_steps == 7


def test_a_dry_run_prints_the_gpu_hours_and_launches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    listed = call("list", "llama3-8b-lora", "--published", *SMALL)
    tried = call("launch", "llama3-8b-lora", "--published", *SMALL, "--dry-run")
    assert listed.returncode == tried.returncode == 0
    assert listed.stdout == tried.stdout
    assert "GPU-hours by their time limits" in listed.stdout
    document = json.loads(call("list", "llama3-8b-lora", "--published", *SMALL, "--json").stdout)
    assert document["gpu_hours_limit"] > document["gpu_hours_steps"] > 0
    assert {point["settings"]["num_gpus"] for point in document["points"]} <= {1, 2, 4, 8}
    assert list(tmp_path.iterdir()) == []
    (command,) = listed.stderr.splitlines()
    words = shlex.split(command.removeprefix("next: benchrun "))
    assert call(*words, "--dry-run").stdout == listed.stdout


def test_a_list_of_exactly_so_many_gpus_has_their_published_numbers() -> None:
    listed = call("list", "llama3.1-8b", "nemotron4-15b", "--published", "--gpu", "H100", "--num-gpus", 64)
    heading, *rows = listed.stdout.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert "tokens/s/GPU" in heading and len(rows) >= 4
    numbers = [float(row.split()[5].replace(",", "")) for row in rows if row.split()[0].isdigit()]
    assert min(numbers) > 1000
    assert [line.split()[3] for line in listed.stderr.splitlines()] == ["llama3.1-8b", "nemotron4-15b"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("launch",), "name a RECIPE, or --published"),
        (("launch", "--published", "--gpu", "H100"), "--published takes either --max-gpus or --num-gpus"),
        (("list", "--max-gpus", "8"), "--max-gpus goes with --published"),
        (("list", "--num-gpus", "8"), "--num-gpus goes with --published"),
        (("list", "--published", "--max-gpus", "8"), "--published needs a GPU"),
        (("launch", "--published", *SMALL, "--num-gpus", "8"), "--published takes either --max-gpus or --num-gpus"),
        (("launch", "--published", *SMALL, "--exclude", "node1"), "--published goes without --exclude"),
        (("list", "--published", *SMALL, "--all"), "--published goes without --all"),
        (
            ("list", "--published", "--gpu", "MI300X", "--max-gpus", "8"),
            "no number is published for at most 8 x MI300X",
        ),
        (("list", "llama3-8b-lora", "--published", *SMALL, "--cluster", "local"), "no point is legal; the first:"),
    ],
)
def test_what_does_not_go_together_is_one_error(words: tuple[str, ...], says: str) -> None:
    result = call(*words)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {says}")
    assert result.stdout == ""


@pytest.mark.thorough
def test_the_suite_runs_and_ends_with_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("megatron.core", reason="megatron-core needs pip install '.[train]'")
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path))
    words = ("launch", "tiny-gpt3", "--published", "--gpu", "CPU", "--max-gpus", "1", "--precision", "fp32")
    result = call(*words)
    assert result.stderr.startswith("1 runs take at most"), result.stderr
    assert "completed" in result.stdout
    (run,) = (path.name for path in (tmp_path / "runs").glob("tiny-gpt3-*"))
    (line,) = (line for line in result.stdout.splitlines() if line.startswith(f"{run}: "))
    assert (tmp_path / "runs" / run / "verdict.json").is_file()
    assert line.partition(": ")[2]
    again = call(*words)
    assert (again.returncode, again.stdout) == (result.returncode, result.stdout)
    assert "launched" not in again.stderr
