"""Which runs can be profiled, by what, which steps that are, and that such a run is no repeat of another."""

import dataclasses
from pathlib import Path

import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.registry import FRAMEWORKS, framework
from benchrun.judge.measured import load_measured, measured_references
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec, TrainingSpec

POINTS = {
    "megatron-core": ("llama3.1-8b", "H100", "bf16", 8),
    "megatron-lm": ("llama3.1-8b", "H100", "bf16", 8),
    "nemo1": ("llama3.1-8b", "H100", "bf16", 8),
    "nemo2": ("llama3.1-8b", "H100", "bf16", 8),
    "megatron-bridge": ("llama3.1-8b", "H100", "bf16", 8),
    "hf": ("mistral-7b-hf", "H100", "bf16", 8),
    "maxtext": ("llama2-70b", "H100", "bf16", 64),
    "paxml": ("gpt3-5b", "H100", "bf16", 256),
}


def point(name: str, *overrides: str) -> TrainingSpec:
    spec = resolve(Request(*POINTS[name], name, "dgx-h100", overrides))
    assert isinstance(spec, TrainingSpec)
    return spec


@pytest.mark.parametrize(
    ("name", "tool", "profiled", "made"),
    [
        # Warm-up of torch's profiler before, and in Megatron's loop one more step until the trace is written.
        ("megatron-core", "kineto", (52, 54), 54),
        ("megatron-core", "nsys", (51, 53), 53),
        ("hf", "kineto", (52, 54), 54),
        ("hf", "nsys", (51, 53), 53),
        ("megatron-lm", "kineto", (52, 54), 55),
        ("megatron-lm", "nsys", (51, 53), 53),
        ("megatron-bridge", "kineto", (52, 54), 55),
        ("megatron-bridge", "nsys", (51, 53), 53),
        ("nemo2", "kineto", (52, 54), 54),
        ("nemo2", "nsys", (51, 53), 53),
        ("nemo1", "nsys", (52, 54), 54),
        ("maxtext", "nsys", (51, 53), 53),
        ("maxtext", "xplane", (51, 53), 53),
        ("paxml", "nsys", (51, 53), 53),
    ],
)
def test_profiled_steps_follow_the_measured_ones(name: str, tool: str, profiled: tuple[int, int], made: int) -> None:
    spec = point(name, f"profile.tool={tool}", "training.steps=50")
    assert (spec.planned_steps, spec.profiled_steps, framework(name).all_steps(spec)) == (50, profiled, made)
    assert tool in framework(name).profilers
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec


def test_every_framework_has_a_profiler_and_without_one_nothing_changes() -> None:
    trained = {name: each for name, each in FRAMEWORKS.items() if each.workload == "training"}
    assert [name for name, each in trained.items() if not each.profilers] == []
    for name in POINTS:
        plain = point(name)
        assert (plain.profiler, plain.profiled_steps) == ("none", None)
        assert framework(name).all_steps(plain) == plain.planned_steps


@pytest.mark.parametrize("override", ["profile.steps=7", "profile.ranks=[0, 1]", "profile.options=[--stats=true]"])
def test_a_profile_without_a_profiler_is_refused_but_where_the_command_chooses_one(override: str) -> None:
    with pytest.raises(UserError, match=r"profile\.\w+ changes nothing while profile\.tool is none") as refused:
        point("nemo2", override)
    assert refused.value.where == f"--set {override}"
    request = Request(*POINTS["nemo2"], "nemo2", "dgx-h100", (override,))
    assert [spec.profiler for spec in api.resolve_profiled(request, "nsys")] == ["nsys"]
    if "options" not in override:
        assert [spec.profiler for spec in api.resolve_profiled(request)] == ["kineto"]


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("nemo1", ("profile.tool=kineto",), "profile.tool could be none or nsys (hf, megatron-bridge"),
        ("paxml", ("profile.tool=xplane",), "profile.tool could be none or nsys (maxtext can)"),
        ("megatron-core", ("profile.tool=xplane",), "profile.tool could be kineto, none or nsys (maxtext can)"),
        ("nemo2", ("profile.tool=nsys", "profile.ranks=[0, 8]"), "names rank 8: it must be at most 7"),
        ("nemo2", ("profile.tool=kineto", "profile.options=[--stats=true]"), "must be empty for profile.tool kineto"),
        ("megatron-core", ("profile.tool=nsys", "training.breakdown=true"), "training.breakdown must be false"),
        ("maxtext", ("profile.tool=xplane", "profile.ranks=[3]"), "profile.ranks must be [0], or name every rank"),
    ],
)
def test_what_a_framework_cannot_do_is_refused(name: str, overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError) as refused:
        point(name, *overrides)
    assert words in refused.value.message
    assert refused.value.where == f"--set {overrides[-1]}"


def test_a_refusal_has_the_line_of_the_recipe_that_states_the_value(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    shipped = (Path(api.__file__).parents[1] / "recipes/tiny-llama.yaml").read_text()
    mine.write_text("profile: {steps: 2,\n  tool: xplane}\n" + shipped)
    with pytest.raises(UserError) as refused:
        resolve(Request(str(mine), "CPU", "fp32", 2))
    assert refused.value.where == f"{mine}:2"


def test_nsys_needs_a_gpu() -> None:
    with pytest.raises(UserError, match=r"profile\.tool must be kineto on a CPU"):
        resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=("profile.tool=nsys",)))


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("profile.tool=nvprof", "profile.tool"),
        ("profile.steps=0", "profile.steps"),
        ("profile.ranks=[]", "profile.ranks"),
        ("profile.trace=[gpu]", "profile.trace"),
        ("profile.options=[stats]", "profile.options"),
        ("profile.options=[--output=elsewhere]", "profile.options"),
        ("profile.options=[-c=none]", "profile.options"),
        ("profile.options=[--delay 360]", "profile.options"),
        ("profile.options=[-y 360]", "profile.options"),
        ("profile.rank=[1]", "profile.rank"),
    ],
)
def test_a_wrong_value_is_named(override: str, key: str) -> None:
    with pytest.raises(UserError) as refused:
        point("nemo2", override)
    assert f"'{key}" in refused.value.message
    assert refused.value.where == f"--set {override}"


def test_a_value_may_contain_a_space() -> None:
    spec = point("nemo2", "profile.tool=nsys", 'profile.options=["--session-new=my session"]')
    assert spec.profile.options == ("--session-new=my session",)


def test_a_recipe_states_a_profile_and_a_wrong_key_in_it_has_its_line(tmp_path: Path) -> None:
    shipped = (Path(api.__file__).parents[1] / "recipes/tiny-llama.yaml").read_text()
    mine = tmp_path / "mine.yaml"
    mine.write_text("profile: {tool: kineto, steps: 2, ranks: [1]}\n" + shipped)
    spec = resolve(Request(str(mine), "CPU", "fp32", 2))
    assert (spec.profiler, spec.profile.ranks, spec.profiled_steps) == ("kineto", (1,), (22, 23))
    mine.write_text("profile: {tool: kineto, step: 2}\n" + shipped)
    with pytest.raises(UserError) as refused:
        resolve(Request(str(mine), "CPU", "fp32", 2))
    assert (refused.value.where, refused.value.message) == (f"{mine}:1", "unknown key 'profile.step'")


def test_the_verb_takes_the_named_tool_or_the_recipes_or_kineto(tmp_path: Path) -> None:
    stated = tmp_path / "stated.yaml"
    stated.write_text(
        "profile: {tool: nsys}\n" + (Path(api.__file__).parents[1] / "recipes/llama2-7b-lora.yaml").read_text()
    )
    request = Request("llama2-7b-lora", "H100", "bf16", 1)
    mine = Request(str(stated), "H100", "bf16", 1)
    asked = [(request, None), (request, "nsys"), (mine, None), (mine, "kineto")]
    tools = [api.resolve_profiled(wanted, tool)[0].profiler for wanted, tool in asked]
    assert tools == ["kineto", "nsys", "nsys", "kineto"]
    suite = api.resolve_profiled(Request("smoke"), None)
    assert {spec.profiler for spec in suite} == {"kineto"}


def test_a_profiled_run_is_no_repeat_of_another_tool_or_none() -> None:
    plain, kineto, nsys = (point("nemo2", *more) for more in ((), ("profile.tool=kineto",), ("profile.tool=nsys",)))
    assert len({spec.identity() for spec in (plain, kineto, nsys)}) == 3
    assert len({spec.step_identity() for spec in (plain, kineto, nsys)}) == 3
    longer = point("nemo2", "profile.tool=nsys", "profile.steps=9", "profile.ranks=[0, 4]")
    assert longer.identity() == nsys.identity()


def test_a_profiled_run_is_no_reference() -> None:
    run = next(run for run in load_measured() if run.metrics.step_time_s)
    profile = run.spec.profile.model_copy(update={"tool": "kineto"})
    profiled = dataclasses.replace(run, spec=run.spec.model_copy(update={"profile": profile}))
    assert len(measured_references([run])) == 1
    assert measured_references([profiled]) == ()
