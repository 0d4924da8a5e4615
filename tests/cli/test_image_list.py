"""``benchrun images``: what to pull, and the map of the site's file."""

from pathlib import Path

import yaml
from test_contract import call, document

from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

IMAGE = "nvcr.io/nvidia/nemo:25.07.01"


def test_names_each_image_once_with_who_needs_it() -> None:
    rows = document("images", "llama3.1-8b", "--gpu", "H100", "--json")
    assert len({row["image"] for row in rows}) == len(rows)
    row = next(row for row in rows if row["image"] == IMAGE)
    assert row["frameworks"] == ["megatron-core", "megatron-lm", "nemo2"]
    assert row["pull"] == "enroot import --output nvidia+nemo+25.07.01.sqsh docker://nvcr.io#nvidia/nemo:25.07.01"
    assert [row["image"] for row in document("images", "llama3.1-8b", "--framework", "nemo2", "--json")] == [IMAGE]


def test_of_a_suite_names_those_of_its_runs() -> None:
    assert {row["recipes"] for row in document("images", "strong-scaling", "--json")} == {2}


def test_the_printed_map_is_what_the_site_file_takes(tmp_path: Path) -> None:
    text = call("images", "llama3.1-8b", "--framework", "nemo2").stdout
    site = {"scheduler": "slurm", "gpu": "H100", "gpus_per_node": 8}
    site |= yaml.safe_load(text[text.index("container:") :])
    site["container"]["runtime"] = "pyxis"
    path = tmp_path / "mysite.yaml"
    path.write_text(yaml.safe_dump(site))
    point = Request("llama3.1-8b", precision="bf16", num_gpus=16, framework="nemo2", cluster=str(path))
    assert resolve(point).image == "/PATH/nvidia+nemo+25.07.01.sqsh"
    row = document("images", "llama3.1-8b", "--framework", "nemo2", "--cluster", str(path), "--json")[0]
    assert row["site"] == "/PATH/nvidia+nemo+25.07.01.sqsh"
    assert "# pull" not in call("images", "llama3.1-8b", "--framework", "nemo2", "--cluster", str(path)).stdout


def test_the_runtime_decides_how_to_pull(tmp_path: Path) -> None:
    path = tmp_path / "mysite.yaml"
    path.write_text("scheduler: slurm\ngpu: A100\ngpus_per_node: 4\ncontainer: {runtime: apptainer}\n")
    row = document("images", "llama3.1-8b", "--framework", "nemo2", "--cluster", str(path), "--json")[0]
    assert row["pull"] == f"apptainer pull nvidia+nemo+25.07.01.sif docker://{IMAGE}"


def test_what_runs_on_the_host_has_no_image() -> None:
    result = call("images", "smoke")
    assert (result.returncode, "no run of these has an image" in result.stderr) == (2, True)


def test_the_image_of_a_point_is_listed_beside_the_recipes() -> None:
    images = {row["image"] for row in document("images", "nemotron-3-ultra", "--json")}
    assert images == {"nvcr.io/nvidia/nemo:26.04.01", "nvcr.io/nvidia/nemo:26.08"}
