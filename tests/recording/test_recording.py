"""Two recordings of one tree are equal, and a digit that changed is found."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from .differences import Difference, between, of_texts
from .perform import TREE, state
from .recording import ENDING, Argv, record, write

POINT = ("llama3.1-8b", "--gpu=H100", "--precision=fp8", "--num-gpus=8", "--framework=nemo2")
LOG = "07-megatron-core-2026-15it-seq8192.log.xz"
CALLS: list[Argv] = [
    ("benchrun", "show", *POINT, "--json"),
    ("benchrun", "render", *POINT, "--output", "job"),
    ("benchrun", "parse", "job.log.xz", "--json"),
    ("benchrun", "parse", "no.log"),
    ("datagen", "tokens", "--output=new", "--tokens=1000", "--vocab-size=100", "--workers=1"),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recording")
    (folder / "inputs").mkdir()
    (folder / "inputs/job.log.xz").write_bytes((TREE / "tests/logs" / LOG).read_bytes())
    return folder / "inputs"


@pytest.fixture(scope="module")
def first(inputs: Path) -> Path:
    return recorded(inputs, inputs.with_name("first"))


def recorded(inputs: Path, folder: Path) -> Path:
    folder.mkdir()
    write(folder, record([*CALLS, *CALLS], inputs))
    return folder


def changed(recording: Path, verb: str, old: str, new: str) -> None:
    """Replace a text in every answer of a verb."""
    file = recording / f"{verb}{ENDING}"
    text = gzip.decompress(file.read_bytes()).decode()
    assert old in text
    file.write_bytes(gzip.compress(text.replace(old, new).encode()))


def test_recordings_are_equal(inputs: Path, first: Path, tmp_path: Path) -> None:
    before = state(inputs)
    known = write(tmp_path, record(CALLS[:2], inputs))
    costs = write(tmp_path, record(CALLS[2:], inputs), known)
    assert [*between(first, tmp_path)] == []
    assert state(inputs) == before
    assert sum(cost["calls"] for cost in costs.values()) == len(CALLS)


def test_a_second_call_finds_the_folder_as_the_first_did(first: Path) -> None:
    lines = gzip.decompress((first / f"datagen-tokens{ENDING}").read_bytes()).splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == 2 and answers[0] == answers[1]
    assert {*answers[0]["files"]} >= {"new.bin", "new.idx", "new.json"}


def test_a_changed_digit_is_named_with_its_place(first: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    shutil.copytree(first, second)
    changed(second, "show", "8030261248", "8030261249")
    changed(second, "parse", "no.log", "a.log")
    changed(second, "render", "#SBATCH --nodes=1", "#SBATCH --nodes=2")
    found = [*between(first, second)]
    total = Difference(CALLS[0], "stdout.model.params_total", "8030261248", "8030261249")
    assert total in found
    rendered = {each.place.split(":")[0] for each in found if each.argv == CALLS[1]}
    assert rendered == {"files[job/job.sh]"}
    assert {each.argv for each in between(first, second, "parse")} == {
        CALLS[3],
        (*CALLS[3][:2], "a.log"),
    }


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('{"a": [1, 2.0]}', '{"a": [1, 2.00]}', ".a[1]"),
        ('{"a": 1}', '{"a": "1"}', ".a"),
        ('{"a": 1, "b": null}', '{"a": 1}', ".b"),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', ":1"),
        ("one\ntwo", "one\nthree", ":2"),
    ],
)
def test_places(old: str, new: str, place: str) -> None:
    assert [found[0] for found in of_texts(old, new)] == [place]
