"""What a training costs, and several GPU types in one call."""

import json
import math
from pathlib import Path

import calling
import pytest

from benchrun.capabilities.predict.budget import amount

POINT = ("predict", "llama3.1-8b", "--gpu", "H100", "--precision", "fp8")
PRICED = ("--tokens", "15T", "--price", "2.5", "--power", "700")


def document(*args: str) -> dict:
    result = calling.call(*args, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_days_cost_and_energy_follow_from_the_step() -> None:
    found = document(*POINT, "--num-gpus", "8", *PRICED)
    for end, step_s in found["step_time_s"].items():
        steps = 15e12 / (128 * 8192)
        assert found["time_to_train_days"][end] == pytest.approx(steps * step_s / 86400)
        assert found["gpu_hours"][end] == pytest.approx(8 * 24 * found["time_to_train_days"][end])
        assert found["cost"][end] == pytest.approx(2.5 * found["gpu_hours"][end])
        assert found["energy_mwh"][end] == pytest.approx(700e-6 * found["gpu_hours"][end])
    assert found["gpu_hours"]["low"] < found["gpu_hours"]["median"] < found["gpu_hours"]["high"]


def test_without_tokens_the_steps_of_the_run_are_counted() -> None:
    found = document(*POINT, "--num-gpus", "8", "--set", "training.steps=100")
    assert found["tokens"] == 100 * 128 * 8192
    assert found["gpu_hours"]["median"] == pytest.approx(8 * 100 * found["step_time_s"]["median"] / 3600)
    assert not {"time_to_train_days", "cost", "energy_mwh"} & set(found)


def test_twice_the_gpus_halve_the_days_of_the_same_tokens() -> None:
    few, many = document(*POINT, "--num-gpus", "64,128", *PRICED)["points"]
    days = few["time_to_train_days"]["median"] / many["time_to_train_days"]["median"]
    assert days == pytest.approx(2 * few["step_time_s"]["median"] / many["step_time_s"]["median"])
    assert many["tokens"] == few["tokens"] == 15e12


def test_several_gpus_and_precisions_are_one_list(tmp_path: Path) -> None:
    asked = ("predict", "llama3.1-8b", "--gpu", "H100,B200,L40S", "--precision", "bf16,fp8", "--num-gpus", "64")
    found = document(*asked, *PRICED, "--price", "2,4,1", "--plot", str(tmp_path / "plot.svg"))
    kinds = [(each["gpu"], each["precision"]) for each in found["predictions"]]
    assert kinds == [("H100", "bf16"), ("H100", "fp8"), ("B200", "bf16"), ("B200", "fp8")]
    for each in found["predictions"]:
        price = {"H100": 2, "B200": 4}[each["gpu"]]
        assert each["cost"]["median"] == pytest.approx(price * each["gpu_hours"]["median"])
    assert {each["gpu"] for each in found["left_out"]} == {"L40S"}
    assert (tmp_path / "plot.svg").stat().st_size > 1000
    lines = calling.call(*asked, *PRICED).stdout.splitlines()
    table = [line for line in lines if line.startswith(("GPU ", "H100 ", "B200 "))]
    assert [line.split()[0] for line in table[:5]] == ["GPU", "H100", "H100", "B200", "B200"]
    full, causal = (f"{100 * found['predictions'][0]['mfu'][name]:.1f}" for name in ("full", "causal"))
    assert f"{full} ({causal})" in table[1]
    assert max(map(len, lines)) <= 120


def test_several_gpus_ask_for_the_precision_that_is_open() -> None:
    result = calling.call("predict", "llama3.1-8b", "--gpu", "H100,H200", "--num-gpus", "8")
    assert (result.returncode, "--precision bf16, fp8" in result.stderr) == (2, True)


def test_text_has_the_mfu() -> None:
    rows = calling.call(*POINT, "--num-gpus", "8").stdout.splitlines()
    share = document(*POINT, "--num-gpus", "8")["mfu"]["causal"]
    (row,) = [row for row in rows if row.startswith("MFU % causal")]
    assert float(row.split()[-1]) == pytest.approx(100 * share, abs=0.06)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--tokens", "15X", "15T"),
        ("--tokens", "0", "15T"),
        ("--tokens", "1e999", "15T"),
        ("--tokens", "1T,2T", "15T"),
        ("--price", "2.5USD", "without a currency"),
        ("--price", "", "without a currency"),
        ("--power", "0.7kW", "watts"),
        ("--price", "1,2", "2 values for 1 GPU type"),
    ],
)
def test_a_bad_unit_is_one_clear_error(option: str, value: str, says: str) -> None:
    result = calling.call(*POINT, "--num-gpus", "8", option, value)
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("text", "value"), [("15T", 15e12), ("300b", 300e9), ("2e9", 2e9), ("15_000", 15e3), ("T", None), ("nan", None)]
)
def test_an_amount(text: str, value: float | None) -> None:
    found = amount(text)
    assert found == value or math.isclose(found or 0, value or 0)
