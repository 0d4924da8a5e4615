"""Which steps NeMo 1's own methods record, whatever Lightning tells them about the batch that a step begins with."""

import ast
import logging
import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from kinds import SPREAD, spec
from released import fetched

from benchrun.render import render

pytestmark = pytest.mark.thorough
METHODS = ("on_train_batch_start", "on_train_batch_end")
RELEASES = {"24.05": "2.0.0rc0", "24.09": "2.0.0", "24.12": "2.1.0"}


def model(source: Path, settings: dict[str, Any], accumulated: int) -> Any:
    """An object with NeMo's methods and the settings as NeMo's GPT model keeps them: in micro-batches."""
    functions = [
        node
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name in METHODS
    ]
    open_range: list[bool] = []
    cudart = types.SimpleNamespace(cudaProfilerStart=lambda: open_range.append(True), cudaProfilerStop=open_range.clear)
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(cudart=lambda: cudart))
    names: dict[str, Any] = {"torch": torch, "get_rank": lambda: 0, "logging": logging}
    module = ast.Module(body=[*ast.parse("from __future__ import annotations").body, *functions], type_ignores=[])
    exec(compile(ast.unparse(module), str(source), "exec"), names)
    assert [node.name for node in functions] == [*METHODS]
    made = types.SimpleNamespace(device=types.SimpleNamespace(type="cuda"), range=open_range)
    made._nsys_profile_enabled, made._nsys_profile_started, made._nsys_profile_complete = True, False, False
    made._nsys_profile_start_step = settings["start_step"] * accumulated
    made._nsys_profile_end_step = settings["end_step"] * accumulated
    made._nsys_profile_ranks, made._nsys_profile_gen_shape = settings["ranks"], settings["gen_shape"]
    made.begin, made.end = (types.MethodType(names[name], made) for name in METHODS)
    return made


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("accumulated", [1, 8])
@pytest.mark.parametrize("late", [0, 1])
def test_no_measured_step_is_recorded_and_all_profiled_ones_are(
    tmp_path: Path, release: str, accumulated: int, late: int
) -> None:
    """``late``: the batch with which a step begins is the last one read before it, not the first one of its own."""
    source = fetched(f"nemo-toolkit=={RELEASES[release]}") / "nemo/core/classes/modelPT.py"
    run = spec(tmp_path, "llama", "nemo1", f"image=nvcr.io/nvidia/nemo:{release}", *SPREAD, "profile.tool=nsys")
    document = yaml.safe_load(render(run)["nemo1.yaml"])
    nemo, recorded = model(source, document["model"]["nsys_profile"], accumulated), []
    for step in range(document["trainer"]["max_steps"]):
        nemo.begin(None, max(step * accumulated - late, 0))
        recorded += [step + 1] if nemo.range else []
        nemo.end(None, None, (step + 1) * accumulated - 1)
    first, last = run.profiled_steps
    assert recorded == list(range(first - (1 - late), last + 1))
    assert recorded[0] > run.planned_steps
    assert not nemo.range
