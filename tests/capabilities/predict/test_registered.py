"""Predictions that are registered before anyone measures."""

import json
from pathlib import Path

import pytest
from calling import call

from benchrun import clock, paths
from benchrun.capabilities.predict.registry import held, register, registered
from benchrun.capabilities.predict.usecase import predicted
from benchrun.judge.measured import load_measured
from benchrun.rundir.find import launch_time

POINT = ("predict", "llama3.2-3b", "--precision", "fp8", "--num-gpus", "64", "--set", "mbs=2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("registry") / "registry.jsonl"
    for gpu in ("H100", "H200,B200"):
        assert call(*POINT, "--gpu", gpu, "--register", file).returncode == 0
    return file.read_text()


@pytest.fixture
def registry(tmp_path: Path, whole: str) -> Path:
    file = tmp_path / "registry.jsonl"
    file.write_text(whole)
    return file


def test_what_is_predicted_is_registered_and_waits_for_a_run(registry: Path) -> None:
    lines = [json.loads(line) for line in registry.read_text().splitlines()]
    assert [(line["form"]["gpu"], line["form"]["micro_batch"]) for line in lines] == [
        ("H100", 2),
        ("H200", 2),
        ("B200", 2),
    ]
    asked = json.loads(call(*POINT, "--gpu", "H100", "--json").stdout)["step_time_s"]
    assert {name: lines[0][f"{name}_s"] for name in ("low", "high")} == {name: asked[name] for name in ("low", "high")}
    result = call("predict", "--check", registry, "--json")
    assert result.returncode == 4
    assert [each["run"] for each in json.loads(result.stdout)["predictions"]] == [None] * 3


def test_a_run_counts_from_the_registration_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = next(run for run in load_measured() if run.spec.recipe == "llama3.1-8b")
    began = launch_time(run.name)
    assert began and run.metrics.step_time_s
    for late in (0, 1):
        monkeypatch.setattr(clock, "now", lambda late=late: began.timestamp() + late)
        register(tmp_path / "registry.jsonl", [predicted(run.spec)])
    result = call("predict", "--check", tmp_path / "registry.jsonl", "--json")
    assert result.returncode == 0, result.stderr
    held, refused = (each for each in json.loads(result.stdout)["predictions"] if each["run"] == run.name)
    measured = run.metrics.step_time_s.median
    assert held["measured_s"] == pytest.approx(measured, abs=1e-4)
    assert held["inside"] == ("yes" if held["low_s"] <= measured <= held["high_s"] else "no")
    assert held["error_percent"] == pytest.approx(100 * (held["expected_s"] / measured - 1), abs=0.1)
    assert refused["measured_s"] is None
    assert refused["inside"].startswith("refused")


def changed(lines: list[str], how: str) -> tuple[list[str], int]:
    """The lines after one change, and the number of the first that does not hold."""
    first, second, third = lines
    return {
        "a digit": ([first, second.replace('"low_s": 0.', '"low_s": 0.1'), third], 2),
        "a line less": ([first, third], 2),
        "the first less": ([second, third], 1),
        "a line twice": ([first, first, second, third], 2),
        "another order": ([first, third, second], 2),
        "cut off": ([first, second, third[:-1]], 3),
        "no JSON": ([first, "{\n", third], 2),
        "an empty line": ([first, second, "\n", third], 3),
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        "a digit",
        "a line less",
        "the first less",
        "a line twice",
        "another order",
        "cut off",
        "no JSON",
        "an empty line",
    ],
)
def test_a_changed_registry_is_refused_and_not_continued(registry: Path, how: str) -> None:
    lines, number = changed(registry.read_text().splitlines(keepends=True), how)
    text = "".join(lines)
    registry.write_text(text)
    for words in (("predict", "--check", registry), (*POINT, "--gpu", "H100", "--register", registry)):
        result = call(*words)
        assert result.returncode == 2
        assert f"{registry}:{number}: " in result.stderr
    assert registry.read_text() == text


def test_the_registry_of_this_repository_holds_and_its_points_were_measured_afterwards() -> None:
    lines = registered(paths.DATA / "results" / "registered.jsonl")
    assert len({line.identity for line in lines}) == len(lines) == 40
    rows = held(lines).records()
    assert not [each for each in rows if str(each["inside"]).startswith("refused")]
    assert len({each["point"] for each in rows if each["measured_s"]}) >= 20


def test_a_registry_is_checked_alone(registry: Path) -> None:
    assert call(*POINT, "--gpu", "H100", "--check", registry).returncode == 2
    assert call("predict", "--check", registry.with_name("none")).returncode == 2
