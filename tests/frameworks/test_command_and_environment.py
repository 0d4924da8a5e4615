"""A program of a user's own goes from recipe to verdict, and its log is held to the rules of every other."""

import json
import re
import sys
from pathlib import Path

import pytest
from calling import call

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.logs import last_rows, parse_log
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.command import STATED, fixed_text

PAGE = (Path(__file__).parents[2] / "docs/how-to/my-command.md").read_text()
STEP = r"step (?P<step>\d+)/\d+ loss (?P<loss>\S+) time (?P<step_time_ms>[\d.]+) ms"
RECIPE = """
description: a stranger's script
workload: command
task: pretrain
argv: [python3, /a/train.py, 40]
steps: 40
step_line: 'STEP'
frameworks: {command: {}}
points: [{gpu: CPU, precision: fp32, num_gpus: 1, derived: a test}]
"""


def example(language: str, name: str) -> str:
    """A file of the page."""
    found = re.search(rf"```{language}\n# {name}\n(.*?)```", PAGE, re.S)
    assert found
    return found[1]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(RECIPE.replace("STEP", STEP))
    return file


@pytest.mark.train
def test_the_script_of_the_page_goes_to_a_verdict_against_an_own_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path / "results"))
    script, file = tmp_path / "train.py", tmp_path / "mycommand.yaml"
    script.write_text(example("python", "train.py"))
    text = example("yaml", "mycommand.yaml").replace("/shared/me/train.py", str(script))
    file.write_text(text.replace("python3", sys.executable))
    baseline = launched(file)
    assert baseline["verdict"] == "no_reference"
    assert baseline["numbers"]["num_steps"] == 40
    slower = re.sub(r"    begun = (.*)", r"    begun = \1\n    time.sleep(0.2)", script.read_text())
    script.write_text(slower)
    run = launched(file)
    result = call("compare", run["run_id"], "--baseline", baseline["run_id"], "--json")
    verdict = json.loads(result.stdout)
    assert (result.returncode, verdict["verdict"]) == (1, "slow")
    result = call("parse", tmp_path / "results/runs" / run["run_id"] / "stdout.log", "--json")
    assert json.loads(result.stdout)["complete"] is True


def launched(file: Path) -> dict[str, object]:
    """The run of a recipe, with verdict and numbers."""
    result = call("launch", file, "--wait", "--set", f"cluster.python={sys.executable}")
    name = result.stdout.split()[0]
    run = api.open_run(name)
    document = json.loads((run.path / "metrics.json").read_text())
    verdict = json.loads((run.path / "verdict.json").read_text())
    return {"run_id": name, "verdict": verdict["verdict"], "numbers": document}


def log(folder: Path, lines: list[str], recipe: Path, name: str = "stdout.log") -> Path:
    """A log that a job of ``recipe`` left."""
    script = render(resolve(Request(str(recipe))))["job.sh"]
    stated = re.search(rf"^echo '({STATED}.*)'$", script, re.M)
    assert stated
    file = folder / name
    file.write_text("\n".join(["the job begins", stated[1], *lines, ""]))
    return file


def steps(last: int = 40, loss: str | None = None, ms: float = 200.0) -> list[str]:
    """Step lines of a healthy run."""
    made = []
    for step in range(1, last + 1):
        printed = loss or f"{5 - step / 20:.3f}"
        made.append(f"step {step}/40 loss {printed} time {ms + step % 3} ms")
    return made


def test_a_log_of_its_own_is_read_by_the_stated_expression(recipe: Path, tmp_path: Path) -> None:
    found = parse_log(log(tmp_path, ["{'loss': 1.0}", *steps(), "done"], recipe))
    assert (found.framework, len(found.steps), found.planned_steps) == ("command", 40, 40)
    assert found.steps[0].step_time_s == pytest.approx(0.201)
    assert (found.facts.num_gpus, found.facts.device, found.facts.precision) == (1, "cpu", "fp32")


@pytest.mark.parametrize(
    ("lines", "code", "kind"),
    [
        (steps(), 0, None),
        (steps(30), 4, None),
        (steps(loss="nan"), 4, "nan_loss"),
        (steps(loss="None"), 4, "nan_loss"),
        (steps(loss="4.20017"), 4, "no_update"),
        (steps(loss="4.200"), 0, "constant_loss"),
        ([*steps(20), "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"], 4, None),
        ([*steps()[:-1], "step 40/40 loss 3.0 time 2"], 4, None),
        ([line.replace("time", "took") for line in steps()], 4, None),
    ],
)
def test_a_log_is_held_to_the_rules_of_all_others(
    recipe: Path, tmp_path: Path, lines: list[str], code: int, kind: str | None
) -> None:
    result = call("parse", log(tmp_path, lines, recipe), "--json")
    assert result.returncode == code, result.stdout
    document = json.loads(result.stdout)
    assert kind is None or kind in {problem["kind"] for problem in document["problems"]}


def test_dates_that_contradict_the_times_give_no_number(recipe: Path, tmp_path: Path) -> None:
    dated = []
    for number, line in enumerate(steps()):
        dated.append(f"2026-11-28 10:{number // 6:02}:{number % 6 * 10:02} {line}")
    result = call("parse", log(tmp_path, dated, recipe), "--json")
    assert result.returncode == 4
    assert "contradictory_dates" in {problem["kind"] for problem in json.loads(result.stdout)["problems"]}


def test_steps_from_0_are_complete(recipe: Path, tmp_path: Path) -> None:
    lines = [f"step {step}/40 loss {5 - step / 20:.3f} time 200.{step % 3} ms" for step in range(40)]
    assert parse_log(log(tmp_path, lines, recipe)).complete(40)


def test_rates_become_times_and_a_model_gives_flops(tmp_path: Path) -> None:
    file = tmp_path / "rates.yaml"
    rate = r"it (?P<step>\d+): (?P<tokens_per_s>[\d.]+) tokens/s,"
    point = "gpu: H100, precision: bf16, num_gpus: 8"
    text = RECIPE.replace("STEP", rate).replace("gpu: CPU, precision: fp32, num_gpus: 1", point)
    file.write_text(text + "model: llama3.1-8b\nseq_length: 4096\ngbs: 64\nimage: my/image:1\n")
    lines = [f"it {step}: {80000 + step % 5} tokens/s, good" for step in range(1, 41)]
    summary = json.loads(call("parse", log(tmp_path, lines, file), "--json").stdout)
    assert summary["tokens_per_s_per_gpu"]["median"] == pytest.approx(10000, rel=0.01)
    assert summary["step_time_s"]["median"] == pytest.approx(64 * 4096 / 80000, rel=0.01)
    assert 0.3 < summary["mfu"][0]["causal"] < 0.6


def test_the_end_of_a_large_log_is_read_without_its_beginning(recipe: Path, tmp_path: Path) -> None:
    noise = ["nothing of interest " * 20] * 5000
    assert last_rows(log(tmp_path, [*noise, *steps()], recipe)).last_step == 40


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ("(?P<step>", "(?P<step", 7, "no regular expression"),
        ("(?P<loss>", "(?P<losses>", 7, "unknown group 'losses'"),
        ("(?P<step>", "(", 7, "'step'"),
        ("(?P<step_time_ms>", "(", 7, "no time"),
        ("(?P<step_time_ms>", "(?P<samples_per_s>", 7, "state gbs"),
        (STEP, r"(?P<step>\d+) (?P<step_time_s>\S+)", 7, "no fixed text"),
        ("/a/train.py", "train.py", 5, "whole path"),
        ("argv: [python3, /a/train.py, 40]", "argv: python3 train.py", 5, "expected a list"),
        ("steps: 40", "", 2, "'steps' is missing"),
    ],
)
def test_a_wrong_recipe_is_one_error_with_its_line(recipe: Path, old: str, new: str, line: int, named: str) -> None:
    recipe.write_text(recipe.read_text().replace(old, new))
    result = call("render", recipe)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"mine.yaml:{line}: " in result.stderr
    assert named in result.stderr
    assert result.stderr.count("error:") == 1


def test_the_workload_follows_from_the_framework(recipe: Path) -> None:
    recipe.write_text(recipe.read_text().replace("workload: command\n", ""))
    assert resolve(Request(str(recipe))).workload == "command"
    with pytest.raises(UserError, match="workload"):
        recipe.write_text(recipe.read_text() + "workload: commands\n")
        resolve(Request(str(recipe)))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (r"step (\d+) of", "step "),
        (r"(a|bcd) \| loss", " | loss"),
        (r"(?i)step", ""),
        (r"(step)? x", " x"),
        (r"\d+", ""),
        (r"(?P<step>\d+)(: loss=)", ": loss="),
    ],
)
def test_the_fixed_text_is_in_every_match(expression: str, text: str) -> None:
    assert fixed_text(expression) == text


# Environment variables that depend on the layout and the GPU.

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
SHARDED = (
    "layout={tp: 2, pp: 1, cp: 1, vp: 1, sequence_parallel: true, fsdp: 4}",
    "model.num_layers=8",
    "training.tp_comm_overlap=false",
)


@pytest.mark.parametrize("framework", ["megatron-core", "nemo2", "megatron-bridge"])
@pytest.mark.parametrize(
    ("gpu", "overrides", "queues"),
    [
        ("H100", ("layout={tp: 2, pp: 1, cp: 1, vp: 1, sequence_parallel: true}", "model.num_layers=8"), "1"),
        ("H100", SHARDED, None),  # megatron-core's FSDP refuses 1
        ("B200", ("layout={tp: 2, pp: 1, cp: 1, vp: 1, sequence_parallel: true}", "model.num_layers=8"), "32"),
        ("B200", ("layout={tp: 1, pp: 1, cp: 1, vp: 1, sequence_parallel: false}", "model.num_layers=8"), None),
    ],
)
def test_queues_of_kernels(framework: str, gpu: str, overrides: tuple[str, ...], queues: str | None) -> None:
    spec = resolve(Request("llama3.1-8b", gpu, "bf16", 8, framework, overrides=overrides))
    if framework == "megatron-bridge":  # whose own configurations always say it
        queues = "32" if gpu == "B200" else queues or "8"
    assert spec.env.get(QUEUES) == queues
