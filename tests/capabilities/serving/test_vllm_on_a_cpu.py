"""vLLM itself answers its own client on this machine's CPU, where BENCHRUN_TEST_VLLM names a Python that has it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.jobs.endings import Ending
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

PYTHON = os.environ.get("BENCHRUN_TEST_VLLM", "")


def has_vllm() -> bool:
    code = "import importlib.metadata as m; m.version('vllm')"
    return bool(PYTHON) and subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


needs_vllm = pytest.mark.skipif(not has_vllm(), reason="BENCHRUN_TEST_VLLM names no Python with vLLM")


def launched(folder: Path, *overrides: str) -> Any:
    given = (f"cluster.frameworks.vllm.python={PYTHON}", "num_prompts=12", *overrides)
    run = api.start(resolve(Request("tiny-inference", precision="fp32", framework="vllm", overrides=given)), folder)
    api.wait(run)
    return api.judge_runs([run])


@needs_vllm
def test_vllm_serves_random_weights(tmp_path: Path) -> None:
    judged = launched(tmp_path)
    assert (judged.verdict.verdict, judged.verdict.ending) == ("no_reference", Ending.COMPLETED), judged.verdict.reason
    found = judged.metrics.results
    assert (found["completed"], found["failed"], found["mean_input_tokens"], found["mean_output_tokens"]) == (
        12,
        0,
        32,
        16,
    )
    assert {f"{kind}_{name}_ms" for kind in ("mean", "p99") for name in ("ttft", "tpot", "itl", "e2el")} <= found.keys()
    assert 0 <= found["goodput_requests_per_s"] <= found["requests_per_s"]


@needs_vllm
@pytest.mark.parametrize(
    ("override", "kind", "ending"),
    [
        ("checkpoint=/no/model/here", "server_failed", Ending.FAILED),
        ("server_options=[--enforce-eager,--gpu-memory-utilization=0.999]", "host_oom", Ending.OUT_OF_MEMORY_HOST),
    ],
)
def test_a_server_that_cannot_start_says_why(override: str, kind: str, ending: Ending, tmp_path: Path) -> None:
    judged = launched(tmp_path, override)
    assert (judged.verdict.verdict, judged.verdict.ending) == ("invalid_run", ending)
    assert judged.metrics.fatal.kind == kind
    assert not judged.metrics.results
