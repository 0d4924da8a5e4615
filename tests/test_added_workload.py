"""A workload that a package adds goes from recipe to verdict on the CPU, and its inputs are checked like any other."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from test_toy import ended

from benchrun import api, extensions
from benchrun.cli import main
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS, register_dialect
from benchrun.frameworks.registry import FRAMEWORKS, register
from benchrun.jobs.endings import Ending
from benchrun.judge import choice
from benchrun.judge.references import load_references
from benchrun.measure.registry import METRICS
from benchrun.measure.registry import register as register_metric
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.spec import RunSpec

sys.path.insert(0, str(Path(__file__).parent / "extension"))
from site_pack.answering import ANSWERS, AnsweringSpec, Oracle, OracleLog

RECIPE = """
description: a toy that answers requests
workload: answering
task: offline
requests: 100
frameworks: {oracle: {concurrency: 2}}
points:
- {gpu: CPU, precision: fp32, num_gpus: 1, concurrency: 4, source: a page}
- {gpu: CPU, precision: fp32, num_gpus: 1, concurrency: 8, derived: a test}
"""
ROW = "requests_per_s,{value},answers,offline,CPU,1,fp32,,,,{settings},NVIDIA,a page,2026\n"
HEAD = "metric,value,recipe,task,gpu,num_gpus,precision,num_layers,seq_length,gbs,settings,who,where,date\n"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The toy's recipe, while workload, framework, dialect and metric are registered."""
    shutil.copytree(Oracle.folder, tmp_path / "templates")
    (tmp_path / "answers.yaml").write_text(RECIPE)
    monkeypatch.setattr(Oracle, "folder", tmp_path / "templates")
    monkeypatch.setitem(extensions.BUILT_IN["workloads"], "answering", "site_pack.answering:AnsweringSpec")
    register(Oracle())
    register_dialect(OracleLog)
    register_metric(ANSWERS)
    yield str(tmp_path / "answers.yaml")
    for registry, name in ((FRAMEWORKS, "oracle"), (DIALECTS, "oracle"), (METRICS, ANSWERS.name)):
        del registry[name]


def request(recipe: str, *overrides: str) -> Request:
    return Request(recipe, overrides=(f"cluster.python={sys.executable}", *overrides))


def test_a_recipe_states_inputs_at_every_level_and_set_chooses_a_point(recipe: str) -> None:
    spec = resolve(request(recipe))
    assert isinstance(spec, AnsweringSpec)
    assert (spec.requests, spec.concurrency, spec.prompt_words, spec.source) == (100, 4, 16, "a page")
    assert spec.settings == "requests 100, concurrency 4, prompt_words 16"
    assert resolve(request(recipe, "concurrency=8")).derived == "a test"
    assert [(row["framework"], row["tp"], row["reference"]) for row in api.list_points((recipe,))] == [
        ("oracle", None, 0),
        ("oracle", None, 0),
    ]
    assert api.describe(spec)["references"] == []


@pytest.mark.parametrize(
    ("wrong", "where", "message"),
    [
        ("conurrency: 4", "answers.yaml:8", "unknown key 'conurrency'"),
        ("concurrency: many", "answers.yaml:8", "'concurrency' is 'many'"),
    ],
)
def test_a_wrong_input_is_refused_at_its_line(recipe: str, wrong: str, where: str, message: str) -> None:
    Path(recipe).write_text(RECIPE.replace("concurrency: 4", wrong))
    with pytest.raises(UserError) as error:
        resolve(request(recipe))
    assert str(error.value.where).endswith(where)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("workload: answering", "workload: answerin", "'workload' is 'answerin'"),
        ("oracle: {concurrency: 2}", "oracle: {}, hf: {}", "benchrun supports hf for training, not for answering"),
        ("requests: 100", "requests: 1", "concurrency must be at most requests"),
        ("task: offline", "task: online", "benchrun does not support oracle for online"),
    ],
)
def test_what_does_not_fit_the_workload_is_refused(recipe: str, old: str, new: str, message: str) -> None:
    Path(recipe).write_text(RECIPE.replace(old, new))
    framework = "hf" if "hf" in new else None
    with pytest.raises(UserError) as error:
        resolve(Request(recipe, framework=framework))
    assert message in error.value.message


def test_every_input_counts_in_the_identity_and_spec_json_reads_back(tmp_path: Path, recipe: str) -> None:
    spec = resolve(request(recipe))
    other = resolve(request(recipe, "prompt_words=17"))
    assert spec.identity() != other.identity()
    file = tmp_path / "spec.json"
    file.write_text(render(spec)["spec.json"])
    assert json.loads(file.read_text())["workload"] == "answering"
    assert RunSpec.read(file) == spec
    file.write_text(file.read_text().replace('"answering"', '"dreaming"'))
    with pytest.raises(UserError, match="dreaming"):
        RunSpec.read(file)


@pytest.mark.parametrize("printed", ["oracle: started", "oracle: some requests answered"])
def test_a_run_without_its_results_or_its_end_is_invalid(tmp_path: Path, recipe: str, printed: str) -> None:
    program = tmp_path / "templates" / "frameworks" / "oracle.py.j2"
    text = program.read_text()
    before_results = text.partition("print(f")[0]
    program.write_text(text.replace("all requests", "some requests") if "some" in printed else before_results)
    run = api.start(resolve(request(recipe)), tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED
    assert (run.path / "stdout.log").read_text().splitlines()[-1] == printed
    assert api.judge_runs([run]).verdict.verdict == "invalid_run"


@pytest.mark.parametrize(
    ("published", "settings", "verdict"),
    [
        (40, "requests 100, concurrency 4, prompt_words 16", "pass"),
        (50, "requests 100, concurrency 4, prompt_words 16", "slow"),
        (40, "requests 100, concurrency 8, prompt_words 16", "not_comparable"),
    ],
)
def test_a_run_goes_from_recipe_to_a_verdict_against_a_reference(
    tmp_path: Path,
    recipe: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    published: int,
    settings: str,
    verdict: str,
) -> None:
    store = tmp_path / "reference"
    store.mkdir()
    (store / "answers.csv").write_text(HEAD + ROW.format(value=published, settings=f'"{settings}"'))
    monkeypatch.setattr(choice, "load_references", partial(load_references, store))
    run = api.start(resolve(request(recipe)), tmp_path / "runs")
    assert ended(run) is Ending.COMPLETED, (run.path / "stderr.log").read_text()
    judgement = api.judge_runs([run])
    metrics = judgement.metrics
    assert metrics is not None
    assert metrics.results == {"requests_per_s": 40.5, "first_word_s": 0.25}
    assert (metrics.num_steps, metrics.step_time_s, metrics.mfu, metrics.tflops_per_gpu) == (0, None, (), None)
    assert judgement.verdict.verdict == verdict
    api.store_judgement(judgement)
    assert json.loads((run.path / "metrics.json").read_text())["results"]["requests_per_s"] == 40.5
    result = api.result_of(run)
    assert result.numbers is not None
    assert result.verdict == judgement.verdict
    for verb in ("compare", "report", "status"):
        with contextlib.suppress(SystemExit):
            main([verb, str(run.path)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        assert "answers" in printed.out
