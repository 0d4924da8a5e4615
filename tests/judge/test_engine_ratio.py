"""Post-training with two engines that generate: `report` shows the ratio, beside the published one if there is one."""

import pytest

from benchrun import api
from benchrun.judge.references import load_references
from benchrun.judge.verdict import RunResult
from benchrun.logs import Log, Rows, Step
from benchrun.measure.setting import setting_of
from benchrun.measure.summary import measure
from benchrun.recipes.select import Request
from benchrun.runspec.post_training import PostTrainingSpec
from benchrun.show.runs import ratio_line
from benchrun.show.scaling import engine_ratios, ratios

SUITE = api.resolve(Request("rlhf-with-tensorrt-llm"))
PUBLISHED = {"llama2-7b-ppo": 2.2, "llama2-13b-ppo": 3.1, "llama2-70b-ppo": 5.6}


def result(spec: PostTrainingSpec, step_time_s: float) -> RunResult:
    rows = Rows(Step(step=i, step_time_s=step_time_s, line=i) for i in range(1, 16))
    log = Log("x.log", "nemo-aligner", rows, quantities={"tokens": dict.fromkeys(range(1, 16), 512 * 700.0)})
    return RunResult("x", spec, measure(log, setting_of(spec), planned_steps=15), None)


def test_each_size_has_its_ratio_beside_the_published_one() -> None:
    runs = [result(spec, 100.0 if spec.generation.engine == "tensorrt-llm" else 250.0) for spec in SUITE]
    lines = [ratio_line(ratio) for ratio in ratios(runs, load_references())]
    assert len(lines) == len(PUBLISHED)
    for line, (recipe, value) in zip(lines, PUBLISHED.items(), strict=True):
        assert "2.50 times" in line and recipe in line and f"published: {value:g} x" in line


def test_tokens_of_a_step_give_the_rate_of_all_gpus() -> None:
    metrics = result(SUITE[0], 100.0).metrics
    assert metrics.tokens_per_s_per_gpu.median == pytest.approx(512 * 700 / 100 / 16)


def test_runs_of_other_work_are_no_pair() -> None:
    fast, slow = SUITE[0], SUITE[1].model_copy(update={"max_response_length": 512})
    assert not list(engine_ratios([result(fast, 1.0), result(slow, 2.0)], ()))
    assert not list(engine_ratios([result(fast, 1.0)], ()))


def test_trl_has_a_ratio_of_its_engines() -> None:
    suite = api.resolve(Request("post-training-1xh200"))
    runs = [result(spec, 20.0 if spec.generation.engine == "transformers" else 10.0) for spec in suite]
    (ratio,) = ratios(runs, load_references())
    assert (ratio.metric, ratio.value, ratio.published) == ("vllm_over_transformers", 2.0, None)
