"""docs/published.md says what the data says."""

import re
from pathlib import Path

import kept_runs
import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references, same_work
from benchrun.judge.verdict import RunResult
from benchrun.logs import Log, Rows, Step
from benchrun.measure.setting import setting_of
from benchrun.measure.summary import measure
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.folder import RunDir
from benchrun.runspec.post_training import PostTrainingSpec
from benchrun.show.runs import ratio_line
from benchrun.show.scaling import engine_ratios, ratios
from docs.pages.published import page

PAGE = Path(__file__).parents[2] / "docs" / "published.md"
ENTRIES = load_references()


def section(recipe: str) -> str:
    return page(ENTRIES).split(f"\n## {recipe}\n")[1].split("\n## ")[0]


def test_the_page_is_in_step_with_the_data() -> None:
    assert PAGE.read_text() == page(ENTRIES), "python docs/generate.py"


def test_every_workload_with_a_published_speed_has_a_section() -> None:
    published = {entry.key.recipe for entry in ENTRIES if entry.metric != "final_loss"}
    titles = {line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")}
    assert titles == published


def test_the_best_of_several_releases_is_shown_with_its_scale_and_source() -> None:
    (row,) = [line for line in section("llama3.1-8b").splitlines() if line.startswith("| H100 | bf16 | 8192 |")]
    assert "8, 16, 32, 64, 128" in row
    assert "12.27 s on 8, GBS 128 | 10,682 |" in row
    assert "v25.04 to v25.04.02" in row


def test_neither_proxies_nor_misprints_are_the_best() -> None:
    (grok,) = [line for line in section("grok1-314b").splitlines() if line.startswith("| H100 | bf16 | 8192 |")]
    assert "512, 1024, 2048; with fewer layers 64, 128, 256" in grok
    assert "15.933 s on 512" in grok
    (gpt,) = [line for line in section("gpt3-5b").splitlines() if line.startswith("| H100 | fp8 |")]
    assert "23574" not in gpt


def test_links_of_the_documents_lead_somewhere() -> None:
    root = PAGE.parents[1]
    for document in (PAGE, root / "results" / "reference" / "README.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        assert links
        assert all((document.parent / link).exists() for link in links)


# A log of one task is no run of a recipe of another, whatever speeds are published for their common model.


@pytest.mark.parametrize("recipe", ["llama3-8b-lora", "llama3-8b-sft"])
def test_a_pretraining_log_does_not_pass_as_a_fine_tune(recipe: str) -> None:
    log = parse_log(kept_runs.first("llama3.1-8b-13c939ac-*") / "stdout.log.xz")
    assert log.facts.task == "pretrain"
    verdict, _ = api.judge_log(log, recipe, api.completed_setting(recipe))
    assert verdict.verdict in ("not_comparable", "no_reference")
    assert not verdict.checks


def test_the_same_log_is_judged_as_a_twin_of_its_own_task() -> None:
    log = parse_log(kept_runs.first("llama3.1-8b-13c939ac-*") / "stdout.log.xz")
    assert api.judge_log(log, "llama3-8b", api.completed_setting("llama3-8b"))[0].checks


def test_recipes_of_two_tasks_are_not_the_same_work() -> None:
    pretrain, sft = (
        conditions(resolve(Request(name, "H100", "fp8", 8, "nemo2"))) for name in ("llama3-8b", "llama3-8b-sft")
    )
    assert not same_work(pretrain, sft.model_copy(update={"task": "pretrain"}))


def test_runs_of_two_points_are_not_judged_together(tmp_path: Path) -> None:
    runs = [RunDir(kept_runs.first(f"{name}-*")) for name in ("llama3.1-8b", "llama2-7b")]
    with pytest.raises(UserError):
        api.judge_runs(runs)


# Post-training with two engines that generate: `report` shows the ratio, beside the published one if there is one.

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
