"""A run and its copy are one repeat, also where a digit of the copy was changed; a node with another GPU is named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_measured import finished, spec_of

from benchrun.judge.copies import is_copy, without_copies
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.folder import RunDir
from benchrun.usecases.judgement import judge_runs

times = st.lists(st.integers(9_000, 11_000), min_size=8, max_size=60, unique=True)


@given(times=times, changed=st.integers(0, 7), cut=st.integers(0, 7))
def test_a_changed_digit_or_a_cut_end_make_no_other_run(times: list[int], changed: int, cut: int) -> None:
    run = dict(enumerate(time / 1000 for time in times))
    copy = {**run, changed: run[changed] + 0.0001}
    assert is_copy(run, copy)
    whole = without_copies(["run", "copy", "other"], [run, copy, {step: time + 1 for step, time in run.items()}])
    assert whole == ["run", "other"]
    assert is_copy(run, dict(list(run.items())[: len(run) - min(cut, len(run) // 3)]))


@given(seed=st.randoms(use_true_random=False), rows=st.integers(8, 60), digits=st.integers(0, 3))
def test_repeats_are_no_copies_however_few_digits_their_times_have(seed: Any, rows: int, digits: int) -> None:
    one, other = ({step: round(seed.gauss(10, 0.05), digits) for step in range(rows)} for _ in range(2))
    assert not is_copy(one, other)


def copy_of(run: RunDir, name: str) -> RunDir:
    path = run.path.parent / name
    shutil.copytree(run.path, path)
    log = path / "stdout.log"
    log.write_text(log.read_text().replace("7.0 |", "7.1 |", 1))
    return RunDir(path)


def test_a_run_beside_its_copy_is_one_repeat(tmp_path: Path) -> None:
    run = finished(tmp_path, spec_of(), 13.0)
    twice = judge_runs([run, copy_of(run, f"{run.run_id[:-4]}abcd")]).verdict
    assert (twice.runs, twice.verdict) == (1, judge_runs([run]).verdict.verdict)
    other = finished(tmp_path, spec_of(), 13.01)
    assert judge_runs([run, other]).verdict.runs == 2


@pytest.mark.parametrize(
    ("device", "verdict"),
    [
        ("NVIDIA H100 PCIe", "invalid_run"),
        ("NVIDIA A100-SXM4-80GB", "invalid_run"),
        ("NVIDIA L40S", "invalid_run"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "invalid_run"),
        ("NVIDIA H100 80GB HBM3", None),
    ],
)
def test_a_node_with_another_gpu_than_the_specification_is_no_run_of_it(
    tmp_path: Path, device: str, verdict: str | None
) -> None:
    run = finished(tmp_path, resolve(Request("llama3.1-8b", "H100", "bf16", 8)), 13.0)
    env = json.loads((run.path / "env.json").read_text())
    env["nodes"][0]["gpus"][3]["name"] = device
    (run.path / "env.json").write_text(json.dumps(env))
    found = judge_runs([run]).verdict
    assert (found.verdict == "invalid_run") == (verdict is not None)
    assert ("other_conditions" in found.reason) == (verdict is not None)
