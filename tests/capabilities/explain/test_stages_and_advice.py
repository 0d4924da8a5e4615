"""A step of post-training is explained by its stages, with nothing of plain training."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_explain_cli import call

from benchrun.capabilities.explain.advice import advised, choice
from benchrun.capabilities.explain.model import Name
from benchrun.rundir.find import open_run
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Recompute

# A step of verl, without most of its keys: eric-haibin-lin/verl-data gsm8k/qwen2-7b-fsdp2.log @ 2ef0b0a
STEP = (
    "(TaskRunner pid=1) step:{} - timing_s/gen:{}.0 - timing_s/old_log_prob:25.0 - timing_s/ref:25.0"
    " - timing_s/update_actor:75.0 - timing_s/step:170.0 - perf/total_num_tokens:1468481 - perf/throughput:1079.765\n"
)


def explained(tmp_path: Path, text: str) -> dict:
    log = tmp_path / "x.log"
    log.write_text(text)
    code, out, err = call("explain", log, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_parts_are_the_stages(tmp_path: Path) -> None:
    found = explained(tmp_path, "".join(STEP.format(step, 42) for step in range(1, 9)))
    parts = {part["part"].partition(":")[0]: part["seconds"] for part in found["waterfall"]}
    assert parts == {"generation": 42, "log-probabilities": 50, "training": 75, "not separated": 3}
    assert sum(parts.values()) == found["step_time_s"] == 170
    assert found["causes"] == [] and found["missing"] == []


def test_stages_that_overlap_are_no_parts(tmp_path: Path) -> None:
    found = explained(tmp_path, "".join(STEP.format(step, 142) for step in range(1, 9)))
    assert [part["seconds"] for part in found["waterfall"]] == [pytest.approx(170)]
    assert "generation 142 s" in found["missing"][0]


# Advice names what the run can change.

NEMO = "llama2-7b-lora-93f05e6c"
WORKER = "llama3-8b-lora-b43f8a74"


def advice(run: str, cause: Name, **training: object) -> str:
    spec = open_run(run).spec
    assert isinstance(spec, TrainingSpec)
    spec = spec.model_copy(update={"training": spec.training.model_copy(update=training)})
    return advised(choice(cause, 1.0, ""), spec, np.ones(2)).advice


def test_a_setting_in_force_is_no_advice() -> None:
    assert "cuda_graphs" in advice(WORKER, "host", cuda_graphs="none")
    assert "cuda_graphs" not in advice(WORKER, "host", cuda_graphs="layers")
    assert "overlap_grad_reduce" in advice(WORKER, "exposed_dp", overlap_grad_reduce=False)
    assert "overlap_grad_reduce" not in advice(WORKER, "exposed_dp", overlap_grad_reduce=True)


def test_what_the_framework_refuses_is_no_advice() -> None:
    assert "cuda_graphs" in advice(NEMO, "host")
    assert "cuda_graphs" not in advice(NEMO, "host", recompute=Recompute(granularity="full", num_layers=1))


def test_of_a_log_alone_all_is_advised() -> None:
    assert "cuda_graphs" in advised(choice("host", 1.0, ""), None, np.ones(2)).advice
