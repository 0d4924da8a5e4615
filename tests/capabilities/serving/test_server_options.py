"""Each release has every option that benchrun writes for it, and each value is of the option's type."""

import json
import re
import shlex
from pathlib import Path

import pytest
from accepted import facts
from click.testing import CliRunner

from benchrun.cli import group
from benchrun.judge.conditions import settings_distance
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

VLLM = ("llama3.3-70b-inference", "H200", "fp8", 8, "vllm")
SGLANG = ("deepseek-r1-inference", "H200", "fp8", 8, "sglang")
TRTLLM = ("deepseek-r1-offline", "H200", "fp8", 8, "trtllm")
EVERY = ("prefix_cache=false", "kv_cache=fp8", "max_num_batched_tokens=8192", "memory_fraction=0.8")
SERVED = (*EVERY, "stream_interval=4")
NUMBERS = {"int": r"\d+", "float": r"\d+(\.\d+)?"}


def options(text: str) -> dict[str, str | None]:
    """The options of a command in a job script; None of a flag."""
    lines = [line for line in text.splitlines() if not line.strip().startswith("#")]
    words = [word for word in shlex.split("\n".join(lines)) if word.startswith("--")]
    return {name: value if equals else None for name, equals, value in (word.partition("=") for word in words)}


def array(script: str, name: str) -> str:
    return script.partition(f"\n{name}=(\n")[2].partition("\n)\n")[0]


def accepted(release: str) -> dict[str, str]:
    return dict(line.split() for line in facts(release))


def wrong(found: dict[str, str | None], kinds: dict[str, str]) -> list[str]:
    """Options that the release does not have, or that have another kind of value."""
    bad = []
    for name, value in found.items():
        kind = kinds.get(name)
        if kind in ("flag", None) or value is None:
            fits = kind == "flag" and value is None
        elif kind in NUMBERS:
            fits = re.fullmatch(NUMBERS[kind], value) is not None or value.startswith("$")
        else:
            fits = kind == "str" or value in kind.split("|")
        bad += [] if fits else [name]
    return bad


@pytest.mark.parametrize(
    ("point", "overrides", "command", "release", "least"),
    [
        (SGLANG, SERVED, "server", "sglang_server_0.5.7", 15),
        (SGLANG, (*SERVED, "tp=1", "dp=8", "ep=8"), "server", "sglang_server_0.5.7", 15),
        (SGLANG, (*SERVED, "prefix_cache=true"), "server", "sglang_server_0.5.7", 14),
        (TRTLLM, EVERY, "command", "trtllm_bench_000a01d", 12),
        (TRTLLM, (*EVERY, "checkpoint=/models/R1"), "command", "trtllm_bench_000a01d", 13),
    ],
)  # fmt: skip
def test_a_release_takes_every_option(
    point: tuple[str, str, str, int, str], overrides: tuple[str, ...], command: str, release: str, least: int
) -> None:
    found = options(array(render(resolve(Request(*point, overrides=overrides)))["job.sh"], command))
    assert wrong(found, accepted(release)) == []
    assert len(found) >= least


@pytest.mark.parametrize(
    ("image", "release", "name"),
    [
        ("lmsysorg/sglang:v0.5.23-cu130", "sglang_server_0.5.23", "--cuda-graph-max-bs-decode"),
        ("/images/sglang-v0.5.24.sqsh", "sglang_server_0.5.23", "--cuda-graph-max-bs-decode"),
        ("lmsysorg/sglang:v0.5.7", "sglang_server_0.5.7", "--cuda-graph-max-bs"),
        ("/images/sglang.sqsh", "sglang_server_0.5.7", "--cuda-graph-max-bs"),
    ],
)
def test_the_release_of_the_image_names_the_option_of_cuda_graphs(image: str, release: str, name: str) -> None:
    spec = resolve(Request(*SGLANG, overrides=(*SERVED, f"cluster.container.images.sglang={image}")))
    found = options(array(render(spec)["job.sh"], "server"))
    assert (wrong(found, accepted(release)), found[name]) == ([], "512")


def test_a_wrong_option_or_value_is_found() -> None:
    kinds = {"--tp": "int", "--on": "flag", "--dtype": "auto|bf16"}
    given = {"--tp": "two", "--on": "yes", "--dtype": "fp4", "--none": None}
    assert wrong(given, kinds) == [*given]
    assert wrong({"--tp": "2", "--on": None, "--dtype": "bf16"}, kinds) == []


def test_a_folder_of_weights_is_no_name_on_a_hub_for_tensorrt() -> None:
    """trtllm-bench asks the hub for what --model names, unless --model_path has the weights."""
    folder = resolve(Request(*TRTLLM, overrides=("checkpoint=/models/R1-0528",)))
    found = options(array(render(folder)["job.sh"], "command"))
    assert (found["--model"], found["--model_path"]) == ("R1-0528", "/models/R1-0528")
    assert "--model_path" not in options(array(render(resolve(Request(*TRTLLM)))["job.sh"], "command"))


# The published load that is nearest to a run's is one whose lengths are published.

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
