"""GRPO on a CPU: responses are generated, a program rewards them, and the weights are updated with them."""

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from test_toy import ended

from benchrun import api
from benchrun.errors import UserError
from benchrun.jobs.endings import Ending
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.post_training import PostTrainingSpec

GRPOConfig = pytest.importorskip("trl").GRPOConfig


def request(*overrides: str) -> Request:
    return Request("tiny-grpo", overrides=(f"cluster.python={sys.executable}", *overrides))


def test_the_reward_rises_and_the_stages_are_measured(tmp_path: Path) -> None:
    spec = resolve(request("steps=80", "lr=2e-3"))
    run = api.start(spec, tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED, (run.path / "stderr.log").read_text()
    judgement = api.judge_runs([run])
    metrics = judgement.metrics
    assert metrics.complete and metrics.num_steps == 80
    # Random words are right once in 16.
    assert metrics.first_reward < 0.15 and metrics.final_reward > 1.5 * metrics.first_reward
    stages = {name: spread.median for name, spread in metrics.quantities.items()}
    assert 0 < stages["generation_s"] < metrics.step_time_s.median
    assert stages["generation_s"] + stages["training_s"] < 1.5 * metrics.step_time_s.median
    assert 0 < stages["response_tokens"] <= spec.max_response_length
    # 16 prompts of 4 words, 8 responses to each.
    assert 128 * 4 < stages["tokens"] <= 128 * 8
    # A reward is known for other steps and another learning rate alone.
    assert judgement.verdict.verdict == "no_reference"
    lines = (run.path / "stdout.log").read_text().splitlines()
    steps = [json.loads(line.partition("benchrun step: ")[2]) for line in lines if "benchrun step: " in line]
    assert [step["step"] for step in steps] == list(range(1, 81))
    assert all(step["grad_norm"] > 0 for step in steps[:20])


def test_vllm_generates_on_gpus_alone() -> None:
    from benchrun.worker.rl import engine

    with pytest.raises(UserError, match="no new weights on a CPU"):
        resolve(request("generation.engine=vllm"))
    spec = resolve(Request("llama2-7b-grpo", gpu="H200", overrides=("generation.engine=vllm",)))
    assert isinstance(spec, PostTrainingSpec)
    stated = engine.options(spec)
    assert stated["vllm_gpu_memory_utilization"] == spec.generation.memory_share
    assert stated["vllm_max_model_length"] == spec.max_sequence_length
    assert set(stated) <= {field.name for field in fields(GRPOConfig)}


def test_the_reward_is_the_share_of_right_words() -> None:
    from benchrun.worker.rl import task

    assert task.repeated(["w1 w2", "w3", "w4"], ["w2 w1 w2 w2", "", "w4"]) == [0.75, 0.0, 1.0]
    spec = resolve(request())
    assert isinstance(spec, PostTrainingSpec)
    drawn = task.prompts(spec)
    assert len(drawn) == spec.steps * spec.prompts_per_step
    words = task.tokenizer(spec.model.vocab_size)
    assert len(words(drawn[0]["prompt"])["input_ids"]) == spec.max_sequence_length - spec.max_response_length
    assert words.pad_token_id != words.eos_token_id
