"""``datagen inspect`` describes data from any source and detects damage."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from datagen.indexed import HEAD
from tests.datagen.command import datagen, tokens


@pytest.mark.parametrize("path", ["nothing", "x.bin", "x.idx"])
def test_inspecting_other_files_is_one_clear_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "x.idx").write_bytes(b"MMIDIDX\x00\x00 and then")
    result = datagen("inspect", tmp_path / path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["x.bin", "x.idx"])
@pytest.mark.parametrize("damage", [lambda file: os.truncate(file, 1000), os.unlink], ids=["cut", "gone"])
def test_inspecting_unreadable_data_names_the_damaged_file(
    tmp_path: Path, name: str, damage: Callable[..., Any]
) -> None:
    assert tokens(tmp_path / "x").returncode == 0
    damage(tmp_path / name)
    result = datagen("inspect", tmp_path / "x", "--json")
    assert result.returncode == 4
    assert f"{tmp_path}/{name} " in json.loads(result.stdout)["fault"]
    assert f"{tmp_path}/{name} " in datagen("inspect", tmp_path / "x").stdout


@pytest.mark.parametrize("table", [0, 1], ids=["lengths", "offsets"])
def test_an_index_that_points_outside_its_data_is_one_clear_error(tmp_path: Path, table: int) -> None:
    """Even without a manifest, and if the sum of all lengths is right."""
    assert tokens(tmp_path / "x", "--documents", "fixed", "--mean-length", 1000).returncode == 0
    (tmp_path / "x.json").unlink()
    lengths = numpy.memmap(tmp_path / "x.idx", "<i4", "r+", HEAD.size, (3000,))
    offsets = numpy.memmap(tmp_path / "x.idx", "<i8", "r+", HEAD.size + 4 * 3000, (3000,))
    if table:
        offsets[7] = 2 * (3_000_000 - 999)
    else:
        lengths[7:9] = -1, 2001
    lengths.flush()
    offsets.flush()
    result = datagen("inspect", tmp_path / "x")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path}/x.idx: sequence 7 lies outside of x.bin")


@pytest.mark.parametrize("suffix", ["", ".bin", ".idx", ".json"])
def test_a_prefix_may_end_like_a_file_name(tmp_path: Path, suffix: str) -> None:
    assert tokens(tmp_path / "x.bin").returncode == 0
    assert json.loads(datagen("inspect", tmp_path / f"x.bin{suffix}", "--json").stdout)["tokens"] == 3_000_000


def test_inspect_describes_the_data(tmp_path: Path) -> None:
    assert tokens(tmp_path / "x", "--shards", 3, "--documents", "fixed", "--mean-length", 500).returncode == 0
    report = json.loads(datagen("inspect", tmp_path / "x", "--document", 2001, "--json").stdout)
    assert (report["documents"], report["tokens"], report["dtype"]) == (6000, 3_000_000, "uint16")
    assert report["length"] == {"mean": 500.0, "min": 500, "p5": 500.0, "median": 500.0, "p95": 500.0, "max": 500}
    assert report["histogram"] == [{"from": 256, "to": 511, "documents": 6000}]
    assert report["document"]["length"] == 500 and len(report["document"]["head"]) == 16
    assert 0 < report["entropy_bits"] < 9.97
    assert report["intact"] is True
    assert len(report["files"]) == 3
    text = datagen("inspect", tmp_path / "x_00001.bin").stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["documents", "2,000"] in lines and ["tokens", "1,000,000"] in lines and ["dtype", "uint16"] in lines
    beyond = datagen("inspect", tmp_path / "x", "--document", 6000)
    assert beyond.returncode == 2 and "5999" in beyond.stderr


@pytest.mark.parametrize("form", ["dolly", "chat"])
def test_inspect_reads_instruction_data(tmp_path: Path, form: str) -> None:
    assert datagen("sft", "--output", tmp_path / "s", "--samples", 300, "--format", form).returncode == 0
    report = json.loads(datagen("inspect", tmp_path / "s.jsonl", "--json").stdout)
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    texts = [
        " ".join(m["content"] for m in row["messages"])
        if form == "chat"
        else " ".join((row["instruction"], row["context"], row["response"]))
        for row in rows
    ]
    assert (report["documents"], report["words"]) == (300, sum(len(text.split()) for text in texts))
    assert report["document"]["head"] == texts[0].split()[:16]
    assert report["intact"] is True
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write("{}\n")
    changed = datagen("inspect", tmp_path / "s")
    assert changed.returncode == 4 and "s.jsonl has " in changed.stdout
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write("no JSON\n")
    broken = datagen("inspect", tmp_path / "s")
    assert broken.returncode == 4 and "s.jsonl:302: not JSON" in broken.stderr
    (tmp_path / "s.json").unlink()
    assert datagen("inspect", tmp_path / "s").returncode == 2


def test_inspect_checks_packed_data_and_tokenizers_by_their_manifests(tmp_path: Path) -> None:
    assert datagen("sft", "--output", tmp_path / "p", "--samples", 300, "--format", "packed").returncode == 0
    assert datagen("tokenizer", "--output", tmp_path / "t", "--vocab-size", 500).returncode == 0
    packed = datagen("inspect", tmp_path / "p")
    assert packed.returncode == 0 and ["samples", "300"] in [line.split() for line in packed.stdout.splitlines()]
    (tmp_path / "p.npy").unlink()
    assert datagen("inspect", tmp_path / "p").returncode == 4
    assert datagen("inspect", tmp_path / "t").returncode == 0
    (tmp_path / "t" / "tokenizer.json").write_text("{}")
    assert datagen("inspect", tmp_path / "t").returncode == 4
