"""A framework that only this file knows goes from recipe to verdict on the CPU: adding one touches nothing else."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.base import Framework
from benchrun.frameworks.environment import Variable
from benchrun.frameworks.registry import FRAMEWORKS, register
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import observe
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import RunSpec

RECIPE = """
description: a toy
task: pretrain
model: {num_layers: 4, hidden_size: 64, ffn_hidden_size: 176, num_attention_heads: 4, num_query_groups: 2,
  kv_channels: 16, vocab_size: 256, max_position_embeddings: 128}
seq_length: 128
training: {steps: 30}
frameworks: {toy: {}}
points: [{gpu: CPU, precision: [fp32, bf16], num_gpus: [1, 2], mbs: 2, gbs: 8, derived: a test}]
"""
COMMAND = """{% macro command() %}
  {{ cluster.python }} -u toy.py {{ answer }}
{% endmacro %}
"""
# Until the toy has a dialect of its own it prints another framework's lines.
PROGRAM = """
import os, sys, time
assert (sys.argv[1], os.environ["TOY"]) == ("42", "on")
for step in range({{ spec.training.steps }}):
    time.sleep(0.01)
    line = " iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration (ms): %.1f | learning rate: 1E-3"
    print(line % (step + 1, {{ spec.training.steps }}, (step + 1) * {{ spec.gbs }}, 10 + step % 3 / 10), end=" | ")
    print("global batch size: {{ spec.gbs }} | lm loss: %.6E | number of skipped iterations: 0 |" % (5 - step / 100))
"""


class Toy(Framework):
    """It trains in FP32 on one CPU."""

    name = "toy"
    tasks = frozenset({"pretrain"})
    precisions = frozenset({"fp32"})
    needs_gpu = False
    degrees = ()
    fsdp = False
    step_lines = ("elapsed time per iteration (",)
    files = ("toy.py",)

    def refusals(self, spec: RunSpec) -> Iterator[str]:
        """One rule of its own."""
        if spec.training.seed == 13:
            yield "toy is superstitious"

    def environment(self, spec: RunSpec) -> dict[str, Variable]:
        """One variable."""
        return {"TOY": Variable("on", "it plays only when it is on")}

    def configuration(self, spec: RunSpec) -> dict[str, int]:
        """One value for its template."""
        return {"answer": 42}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The toy's recipe, while the toy is registered."""
    templates = tmp_path / "templates" / "frameworks"
    templates.mkdir(parents=True)
    (templates / "toy.sh.j2").write_text(COMMAND)
    (templates / "toy.py.j2").write_text(PROGRAM)
    (tmp_path / "toy-recipe.yaml").write_text(RECIPE)
    monkeypatch.setattr(Toy, "folder", tmp_path / "templates")
    register(Toy())
    yield str(tmp_path / "toy-recipe.yaml")
    del FRAMEWORKS["toy"]


def request(recipe: str, *overrides: str, precision: str = "fp32", num_gpus: int = 1) -> Request:
    return Request(recipe, "CPU", precision, num_gpus, overrides=(f"cluster.python={sys.executable}", *overrides))


def ended(run: RunDir, deadline_s: float = 60) -> Ending:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        observation = observe([run])[0]
        if observation.over:
            return api.end_of(observation).ending
        time.sleep(0.1)
    raise AssertionError(f"{run.run_id} has not ended")


def test_a_framework_of_one_file_goes_from_recipe_to_verdict(tmp_path: Path, recipe: str) -> None:
    spec = resolve(request(recipe))
    assert (spec.framework, spec.env["TOY"]) == ("toy", "on")
    files = render(spec)
    assert {"job.sh", "toy.py"} <= set(files)
    assert "export TOY=on  # it plays only when it is on" in files["job.sh"]
    run = api.start(spec, tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED, (run.path / "stderr.log").read_text()
    assert RunDir(run.path).spec == spec
    judgement = api.judge_runs([run])
    metrics = judgement.metrics
    assert metrics is not None
    assert metrics.step_time_s is not None
    assert metrics.step_time_s.median == pytest.approx(0.0101, rel=0.02)
    assert judgement.verdict.verdict == "no_reference"


@pytest.mark.parametrize(
    ("precision", "num_gpus", "overrides", "refused"),
    [
        ("bf16", 1, (), "benchrun supports toy in fp32, not in bf16"),
        ("fp32", 2, ("layout.tp=2",), "tp (2) must be 1"),
        ("fp32", 2, ("layout.fsdp=2",), "fsdp (2) must be 1"),
        ("fp32", 1, ("training.cuda_graphs=layers",), "training.cuda_graphs"),
        ("fp32", 1, ("training.seed=13",), "superstitious"),
        ("fp32", 1, ("env.TOY=null",), "env.TOY"),
    ],
)
def test_what_it_cannot_run_is_refused_from_its_attributes_and_its_own_rules(
    recipe: str, precision: str, num_gpus: int, overrides: tuple[str, ...], refused: str
) -> None:
    with pytest.raises(UserError) as error:
        resolve(request(recipe, *overrides, precision=precision, num_gpus=num_gpus))
    assert refused in str(error.value)


def test_a_name_that_is_not_registered_is_refused_at_its_line_with_the_closest_one(tmp_path: Path, recipe: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(RECIPE.replace("toy: {}", "toi: {}"))
    with pytest.raises(UserError) as error:
        resolve(request(str(path)))
    assert error.value.where == f"{path}:8"
    assert "did you mean 'toy'" in str(error.value.hint)
