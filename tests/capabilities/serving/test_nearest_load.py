"""The published load that is nearest to a run's is one whose lengths are published."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchrun.cli import group
from benchrun.judge.conditions import settings_distance

LOG = Path(__file__).parents[2] / "logs/serving/sglang-deepseek-offline.jsonl"


def test_of_other_lengths_it_is_no_row_without_lengths() -> None:
    point = ["--recipe", "deepseek-r1-inference", "--gpu", "H200", "--precision", "fp8", "--num-gpus", "8"]
    result = CliRunner().invoke(group, ["compare", str(LOG), *point, "--json"], standalone_mode=False)
    verdict = json.loads(result.stdout)
    assert verdict["verdict"] == "not_comparable"
    (difference,) = verdict["differs"]
    assert "input_tokens 1024, output_tokens 1024" in difference["theirs"]
    assert "input_tokens 1, output_tokens 512" in difference["ours"]


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ("input_tokens 1024, concurrency 64", "input_tokens 1024, concurrency 8"),
        ("input_tokens 1024, concurrency 100", "input_tokens 1024, concurrency 400"),
        ("input_tokens 512, concurrency 100", ""),
        ("input_tokens 1024, concurrency 100, shortest 1", "input_tokens 1024, concurrency inf, shortest 1"),
    ],
)
def test_the_closer_number_is_nearer(near: str, far: str) -> None:
    own = "input_tokens 1024, concurrency 100, shortest 0.8"
    assert settings_distance(own, near) < settings_distance(own, far)
    assert settings_distance(own, own) == 0
