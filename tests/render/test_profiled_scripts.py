"""Profiled runs: what each framework is told, and the script that runs a rank under nsys."""

import ast
import os
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from accepted import facts
from kinds import SPREAD, spec
from test_accepted import calls, command, imports, leaves, of_type
from test_golden import RUNTIMES

from benchrun.logs.profiled import measured_steps
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

FLAGS = set(facts("megatron-lm_core_v0.13.0"))
FSDP = ("layout.fsdp=128",)
RANKS = "profile.ranks=[0, 9]"
CASES = [
    ("megatron-core", "llama", SPREAD, "kineto"),
    ("megatron-core", "llama", SPREAD, "nsys"),
    ("megatron-lm", "llama", SPREAD, "kineto"),
    ("megatron-lm", "llama", SPREAD, "nsys"),
    ("nemo1", "llama", SPREAD, "nsys"),
    ("nemo2", "llama", SPREAD, "kineto"),
    ("nemo2", "llama", SPREAD, "nsys"),
    ("megatron-bridge", "llama", SPREAD, "kineto"),
    ("megatron-bridge", "llama", SPREAD, "nsys"),
    ("maxtext", "llama", FSDP, "nsys"),
    ("paxml", "gpt3", FSDP, "nsys"),
]


@pytest.mark.parametrize(("framework", "kind", "more", "tool"), CASES)
def test_the_job_names_the_measured_steps_before_it_trains(
    tmp_path: Path, framework: str, kind: str, more: tuple[str, ...], tool: str
) -> None:
    run = spec(tmp_path, kind, framework, *more, f"profile.tool={tool}", RANKS)
    files = render(run)
    lines = files["job.sh"].splitlines()
    (announced,) = (number for number, line in enumerate(lines) if line.startswith("echo 'benchrun: steps after"))
    assert measured_steps(lines[announced]) == run.planned_steps == 50
    assert announced < next(number for number, line in enumerate(lines) if line.startswith("step --kill-on-bad-exit"))
    assert lines[announced - 1] == "mkdir -p profile"
    under_nsys = '  bash nsys.sh "${command[@]}"'
    assert (lines[-1] == under_nsys) == ("nsys.sh" in files) == (tool == "nsys")


def test_megatron_lm_profiles_by_flags_that_it_has(tmp_path: Path) -> None:
    words = {
        tool: command(render(spec(tmp_path, "llama", "megatron-lm", *SPREAD, f"profile.tool={tool}", RANKS))["job.sh"])
        for tool in ("nsys", "kineto")
    }
    for each in words.values():
        assert {word for word in each if word.startswith("--")} <= FLAGS
        at = each.index("--profile-ranks")
        assert each[at + 1 : at + 4] == ["0", "9", "--profile-step-start"]
    value = {tool: dict(pairwise(each)) for tool, each in words.items()}
    # It numbers steps from 0 for nsys; torch's schedule counts from 1, and has no step of its own after its end.
    names = ("--train-iters", "--profile-step-start", "--profile-step-end", "--lr-decay-iters")
    assert [value["nsys"][name] for name in names] == ["53", "50", "53", "50"]
    assert [value["kineto"][name] for name in names] == ["55", "52", "55", "50"]
    assert "--use-pytorch-profiler" in words["kineto"] and "--use-pytorch-profiler" not in words["nsys"]
    assert (value["kineto"]["--tensorboard-dir"], value["kineto"]["--tensorboard-log-interval"]) == ("profile", "56")


@pytest.mark.parametrize("release", ["24.05", "24.09", "24.12"])
def test_nemo1_reads_every_key_of_a_profile(tmp_path: Path, release: str) -> None:
    image = f"image=nvcr.io/nvidia/nemo:{release}"
    text = render(spec(tmp_path, "llama", "nemo1", image, *SPREAD, "profile.tool=nsys", RANKS))["nemo1.yaml"]
    document = yaml.safe_load(text)
    assert set(leaves(document)) <= set(facts(f"nemo1_{release}"))
    asked = {"enabled": True, "start_step": 50, "end_step": 53, "ranks": [0, 9], "gen_shape": False}
    assert document["model"]["nsys_profile"] == asked
    assert document["trainer"]["max_steps"] == document["trainer"]["val_check_interval"] == 54


@pytest.mark.parametrize(
    ("framework", "file", "release"),
    [
        ("nemo2", "train_nemo2.py", "nemo2_25.07"),
        ("megatron-bridge", "train_megatron_bridge.py", "megatron-bridge_25.11"),
        ("megatron-bridge", "train_megatron_bridge.py", "megatron-bridge_26.04"),
    ],
)
@pytest.mark.parametrize("tool", ["kineto", "nsys"])
@pytest.mark.parametrize(("task", "data"), [("pretrain", "mock"), ("pretrain", "synthetic"), ("lora", "synthetic")])
def test_drivers_call_what_the_releases_have(
    tmp_path: Path, framework: str, file: str, release: str, tool: str, task: str, data: str
) -> None:
    asked = (*SPREAD, f"profile.tool={tool}", RANKS, f"data.kind={data}")
    text = render(spec(tmp_path, "llama", framework, *asked, task=task))[file]
    known = facts(release)
    signatures = {name: set(words.split()) for name, _, words in (line.partition(": ") for line in known)}
    assert {line for line in imports(text) if "torch" not in line} <= set(known)
    used = {name: keywords for name, keywords in calls(text) if name in signatures}
    assert all(keywords <= signatures[name] for name, keywords in used.items())
    profilers = {"NsysCallback", "PytorchProfilerCallback", "ProfilingConfig"} & set(used)
    of_nemo2 = {"nsys": "NsysCallback", "kineto": "PytorchProfilerCallback"}[tool]
    assert profilers == {of_nemo2 if framework == "nemo2" else "ProfilingConfig"}


@pytest.mark.parametrize("release", ["2024-12-09", "2025-01-24"])
@pytest.mark.parametrize("tool", ["nsys", "xplane"])
def test_maxtext_knows_every_key_of_a_profile(tmp_path: Path, release: str, tool: str) -> None:
    types = dict(line.split(": ") for line in facts(f"maxtext_{release}"))
    words = command(render(spec(tmp_path, "llama", "maxtext", *FSDP, f"profile.tool={tool}"))["job.sh"])[4:]
    values = dict(word.split("=", 1) for word in words)
    assert len(values) == len(words), "a key is given twice"
    assert all(key in types and of_type(types[key], value) for key, value in values.items())
    names = ("profiler", "skip_first_n_steps_for_profiler", "profiler_steps", "steps", "learning_rate_schedule_steps")
    assert [values[name] for name in names] == [tool, "50", "3", "53", "50"]
    assert values["upload_all_profiler_results"] == "false"
    assert values["base_output_directory"] == {"nsys": "maxtext-log", "xplane": "profile"}[tool]


def test_every_process_of_maxtext_opens_its_range_where_others_than_the_first_are_recorded(tmp_path: Path) -> None:
    words = command(render(spec(tmp_path, "llama", "maxtext", *FSDP, "profile.tool=nsys", RANKS))["job.sh"])
    assert "upload_all_profiler_results=true" in words


def test_paxml_opens_the_range_by_its_own_hook(tmp_path: Path) -> None:
    text = render(spec(tmp_path, "gpt3", "paxml", *FSDP, "profile.tool=nsys"))["paxml_point.py"]
    tree = ast.parse(text)
    profiler, point = (node for node in tree.body if isinstance(node, ast.ClassDef))
    assert [node.name for node in profiler.body if isinstance(node, ast.FunctionDef)] == ["capture_async"]
    constants = {n.targets[0].id: ast.literal_eval(n.value) for n in point.body if is_number(n)}
    # It counts from 0 and logs its throughput every ten steps, so that the profiled ones print no row.
    assert (constants["PROFILER_CAPTURE_STEP"], constants["MAX_STEPS"], constants["LR_COS_DECAY_END"]) == (50, 53, 50)
    assert set(facts("paxml_2024-03-04")) >= {n.targets[0].id for n in point.body if isinstance(n, ast.Assign)}


def is_number(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int)


RECORDER = """#!/bin/bash
printf '%s\\n' nsys "$@" >"called.$RANK"
while [ "$1" != COMMAND ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """nsys.sh of a run, called as a rank calls it, with a program on the PATH that records how nsys was called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nsys").write_text(RECORDER)
    (programs / "nsys").chmod(0o755)

    def call(*overrides: str, rank: int | None = 0, with_nsys: bool = True) -> tuple[int, str, list[str]]:
        """Exit code, output, and the words with which nsys was called; none where it was not."""
        request = Request("llama2-7b-lora", "GH200", "bf16", 8, "nemo2", "gh200", ("profile.tool=nsys", *overrides))
        (tmp_path / "nsys.sh").write_text(render(resolve(request))["nsys.sh"])
        path = f"{programs}:{os.environ['PATH']}" if with_nsys else "/usr/bin:/bin"
        words = ["bash", "nsys.sh", "COMMAND", "echo", "a rank's output"]
        number = "" if rank is None else str(rank)
        env = {"PATH": path, "RANK": number}
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        called = tmp_path / f"called.{number}"
        return done.returncode, done.stdout + done.stderr, called.read_text().splitlines() if called.exists() else []

    return call


def test_nsys_records_the_range_of_a_profiled_rank(script: Any) -> None:
    code, output, words = script("profile.ranks=[0, 6]", rank=6)
    assert (code, output) == (0, "a rank's output\n")
    assert words[:2] == ["nsys", "profile"]
    assert words[-3:] == ["COMMAND", "echo", "a rank's output"]
    assert set(words) >= {
        *("--trace=cuda,osrt,nvtx", "--capture-range=cudaProfilerApi", "--capture-range-end=stop"),
        *("--output=profile/rank6", "--show-output=true", "--sample=none", "--cpuctxsw=none", "--export=sqlite"),
    }


def test_other_ranks_run_without_nsys(script: Any) -> None:
    code, output, words = script("profile.ranks=[0, 6]", rank=5)
    assert (code, output, words) == (127, "nsys.sh: line 8: exec: COMMAND: not found\n", [])


def test_a_single_rank_without_a_number_is_rank_0(script: Any) -> None:
    _, _, words = script(rank=None)
    assert "--output=profile/rank0" in words


def test_a_rank_without_nsys_says_so_and_does_not_train(script: Any) -> None:
    code, output, _ = script(with_nsys=False)
    assert code == 127
    assert "rank 0 finds no nsys on its PATH" in output
    assert "a rank's output" not in output


def test_the_options_of_the_source_presentation_reach_nsys(script: Any) -> None:
    """-y 360 -d 720 --trace=cuda,cudnn,cublas,osrt,nvtx --event-sample=system-wide -w true -c cudaProfilerApi"""
    options = 'profile.options=["--delay=360", "--duration=720", "--event-sample=system-wide"]'
    _, _, words = script("profile.trace=[cuda, cudnn, cublas, osrt, nvtx]", options)
    source = ["--delay=360", "--duration=720", "--event-sample=system-wide"]
    assert [word for word in words if word in source] == source
    assert set(words) >= {*source, "--trace=cuda,cudnn,cublas,osrt,nvtx", "--show-output=true"}
    assert "--capture-range=cudaProfilerApi" in words


def test_samples_of_the_cpu_are_taken_only_where_they_are_asked_for(script: Any) -> None:
    _, _, words = script("profile.options=[--sample=process-tree]")
    assert [word for word in words if "sample" in word or "cpuctxsw" in word] == [
        "--cpuctxsw=none",
        "--sample=process-tree",
    ]


def test_a_hostile_option_stays_one_word(script: Any) -> None:
    _, output, words = script("profile.options=[\"--stats='x'; touch pwned $(id)\"]")
    assert "--stats='x'; touch pwned $(id)" in words
    assert output == "a rank's output\n"


def test_graphs_are_recorded_kernel_by_kernel(tmp_path: Path) -> None:
    one_stage = ("layout.pp=1", "layout.vp=1", "model.num_layers=2")
    graphs = spec(tmp_path, "llama", "megatron-core", *one_stage, "training.cuda_graphs=layers", "profile.tool=nsys")
    assert " --cuda-graph-trace=node " in render(graphs)["nsys.sh"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_nsys_runs_inside_the_container(runtime: str) -> None:
    """It is in the image, and records what runs in the same container."""
    overrides = (f"cluster.container.runtime={runtime}", "cluster.container.options=[]", "profile.tool=nsys")
    unbound = ("cluster.binding.gpus_per_numa_node=null",) if runtime == "docker" else ()
    point = Request("llama3.1-8b", "H100", "bf16", 8, "megatron-core", "dgx-h100", (*overrides, *unbound))
    last = render(resolve(point))["job.sh"].rpartition("\nstep ")[2]
    words = shlex.split(last.replace("\\\n", " "))
    assert words[-3:] == ["bash", "nsys.sh", "${command[@]}"]
    image = [number for number, word in enumerate(words) if re.search(r"nvidia/nemo:", word)]
    assert image == [] if runtime == "none" else image[0] < len(words) - 3


@pytest.mark.parametrize("num_gpus", [1, 4])
def test_nsys_runs_below_torchrun_on_this_machine(num_gpus: int) -> None:
    local = ("cluster.scheduler=local", "cluster.container.runtime=none", "profile.tool=nsys")
    point = Request("llama2-7b", "H200", "bf16", num_gpus, "megatron-core", "hgx-h200", local)
    last = render(resolve(point))["job.sh"].splitlines()[-1]
    assert last.endswith('bash nsys.sh "${command[@]}"')
    assert ("torch.distributed.run" in last) == (num_gpus > 1)
