"""Every published row, as a log that runs at a share of its speed: which row judges it, and what the verdict is.

The rule is stated here once more, over the rows and the shapes of `recount`, without the code that it tests.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import call
from selection import some

from benchrun import api, hardware, paths
from benchrun.frameworks.logs import parse_log
from benchrun.judge.references import Reference, load_references
from benchrun.judge.verdict import Verdict
from benchrun.measure.setting import Setting
from benchrun.model.flops import flops_per_token
from benchrun.recipes import catalogue
from tests.judge.recount import model_of

SHARES = (0.85, 0.94, 0.96, 1.0, 1.19, 1.3)
STEPS = 12
AGREE = ("task", "gpu", "num_gpus", "precision", "num_layers", "seq_length", "gbs")
LAYOUT = ("mbs", "tp", "pp", "cp", "vp", "ep")
FAMILIES = (
    {"megatron-core", "megatron-lm", "nemo1", "nemo2", "megatron-bridge"},
    {"hf", "torchtitan", "automodel"},
    {"maxtext", "paxml"},
)
ARGUMENTS = {
    "mbs": "micro_batch_size",
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
}
"""What Megatron-LM's argument dump calls them; vp is there in layers, and left out."""


def of_interest(row: Any) -> Any:
    """Whether a run can be held against a row at all."""
    speed = row.metric in ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")
    counted = row.metric in ("tflops_per_gpu", "mfu_percent") and row.convention in ("full", "causal")
    stated = all(getattr(row.key, name) is not None for name in AGREE)
    return (speed or counted) and stated and not {"revised", "misprint"} & set(row.flags)


ROWS = [row for row in load_references() if of_interest(row)]


@functools.cache
def rate(row_id: Any) -> Any:
    """Tokens/s/GPU of a row."""
    row = next(row for row in ROWS if row.id == row_id)
    key, value = row.key, row.value
    if row.metric == "step_time_s":
        return key.gbs * key.seq_length / value / key.num_gpus
    if row.metric == "samples_per_s":
        return value * key.seq_length / key.num_gpus
    if row.metric == "tokens_per_s_per_gpu":
        return value
    tflops = value if row.metric == "tflops_per_gpu" else value / 100 * row.peak_tflops
    counted = flops_per_token(model_of(row), key.seq_length, task=key.task)
    return 1e12 * tflops / getattr(counted, row.convention)


def twins(one: Reference, other: Reference) -> bool:
    return one.key.recipe == other.key.recipe or (one.key.task != "lora" and model_of(one) == model_of(other))


@functools.cache
def fitting(row_id: Any) -> Any:
    """The rows that may judge a run under the conditions of one."""
    mine = next(row for row in ROWS if row.id == row_id)
    same = [row for row in ROWS if all(getattr(row.key, name) == getattr(mine.key, name) for name in AGREE)]
    return [row for row in same if twins(row, mine)]


def rule(row: Reference, framework: str, layout: dict[str, Any]) -> list[Reference]:
    """The row that judges a run of ``row`` with this framework and layout, in the words of the README."""

    def those(rows: Any, wanted: Any) -> Any:
        return [row for row in rows if wanted(row)] or rows

    def shared(row: Any) -> Any:
        stated = {name: getattr(row.key, name) for name in layout if getattr(row.key, name) is not None}
        if not stated or any(layout[name] != size for name, size in stated.items()):
            return 0
        return 1 + sum(size > 1 for name, size in stated.items() if name != "mbs")

    rows = fitting(row.id)
    family = next((names for names in FAMILIES if framework in names), {framework})
    rows = those(those(rows, lambda row: row.key.framework in family), lambda row: row.key.framework == framework)
    rows = [row for row in rows if shared(row) == max(map(shared, rows))]
    rows = those(rows, lambda row: row.key.variant is None)
    rows = those(rows, lambda row: not {"rounded", "third_party", "side_misprint"} & set(row.flags))
    fastest = max(rate(row.id) for row in rows)
    return [row for row in rows if rate(row.id) == fastest]


def megatron(n: int, time_s: float, gbs: int) -> str:
    head = f" iteration {n:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 * time_s:.6f} |"
    return f"{head} global batch size: {gbs:5d} | lm loss: 2.0E+00 |"


def nemo2(n: Any, time_s: Any, gbs: Any) -> Any:
    head = f"Training epoch 0, iteration {n - 1}/{STEPS - 1} | lr: 1e-06 | global_batch_size: {gbs} |"
    head += f" global_step: {n - 1} | reduced_train_loss: 2.0"
    return f"{head} | train_step_timing in s: {time_s:.9g} | consumed_samples: {gbs * n}"


def bridge(n: Any, time_s: Any, gbs: Any) -> Any:
    return f"Step Time : {time_s:.9f}s GPU utilization: 0.0MODEL_TFLOP/s/GPU\n{megatron(n, time_s, gbs)}"


def maxtext(n: Any, time_s: Any, gbs: Any) -> Any:
    return f"completed step: {n - 1}, seconds: {time_s:.9f}, total_weights: 12, loss: 2.000"


def paxml(n: Any, time_s: Any, gbs: Any) -> Any:
    return f"Setting task status: step = {n}, loss= 2.0, steps/sec {1 / time_s:.12f}"


DIALECTS = {"nemo2": nemo2, "megatron-bridge": bridge, "maxtext": maxtext, "paxml": paxml}
"""Those whose lines have room for every digit of a time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "recipe_file", functools.cache(catalogue.recipe_file))
        yield tmp_path_factory.mktemp("logs")


def write(folder: Path, row: Reference, share: float, dialect: str | None, layout: dict[str, Any]) -> Path:
    """A log of the row's conditions at a share of its speed."""
    key = row.key
    time_s = key.gbs * key.seq_length / key.num_gpus / (share * rate(row.id))
    head = [f"  {ARGUMENTS[name]} {'.' * 30} {size}" for name, size in layout.items()]
    line = DIALECTS.get(dialect, megatron)
    log = folder / "x.log"
    log.write_text("\n".join([*head, *(line(n, time_s, key.gbs) for n in range(1, STEPS + 1)), ""]))
    return log


def judged(log: Path, row: Reference) -> Verdict:
    key = row.key
    model = catalogue.recipe_file(key.recipe).recipe.model.model_copy(update={"num_layers": key.num_layers})
    given = Setting(key.seq_length, key.gbs, key.num_gpus, key.gpu, key.precision, model)
    return api.judge_log(parse_log(log), key.recipe, given)[0]


def expected(ratio: float, chosen: Reference) -> str:
    low, high = 1 - chosen.tolerance_low, 1 + chosen.tolerance_high
    if "floor" in chosen.flags:
        high = float("inf")
    return "slow" if ratio < low else "faster_than_expected" if ratio > high else "pass"


def hold(folder: Path, row: Reference, shares: tuple[float, ...], dialect: str | None, layout: dict[str, Any]) -> None:
    """Chosen row and verdict of one log are what the rule says."""
    for share in shares:
        found = judged(write(folder, row, share, dialect, layout), row)
        framework = dialect if dialect in DIALECTS else "megatron-lm"
        candidates = rule(row, framework, layout)
        chosen = found.checks[0].reference if found.checks else found.nearest
        where = (row.id, share, dialect, chosen and chosen.id, found.reason)
        assert chosen and chosen.id in {row.id for row in candidates}, where
        ratio = share * rate(row.id) / rate(chosen.id)
        edges = (1 - chosen.tolerance_low, 1 + chosen.tolerance_high)
        if min(abs(ratio - edge) for edge in edges) > 1e-6:  # on the edge the last digit of a float decides
            assert found.verdict == expected(ratio, chosen), where
        if found.checks:
            assert found.chosen_because.candidates == len(fitting(row.id)), where


def layout_of(row: Reference) -> dict[str, Any]:
    """What of a row's layout an argument dump states, where its framework prints one."""
    if row.key.framework in ("nemo2", "maxtext", "paxml"):
        return {}
    return {name: getattr(row.key, name) for name in ARGUMENTS if getattr(row.key, name) is not None}


RECIPES = sorted({row.key.recipe for row in ROWS})


def test_there_are_hundreds_of_rows_and_each_has_a_recipe() -> None:
    assert len(ROWS) > 500
    assert set(RECIPES) <= set(paths.shipped(paths.RECIPES))


@pytest.mark.parametrize("recipe", some(RECIPES, 4))
def test_a_log_with_layout_and_framework_is_judged_by_the_row_that_the_rule_names(folder: Path, recipe: str) -> None:
    for row in (row for row in ROWS if row.key.recipe == recipe):
        hold(folder, row, SHARES, row.key.framework, layout_of(row))


@pytest.mark.parametrize("recipe", some(RECIPES, 4))
def test_a_log_that_states_neither_is_judged_by_the_row_that_the_rule_names(folder: Path, recipe: str) -> None:
    for row in (row for row in ROWS if row.key.recipe == recipe):
        hold(folder, row, SHARES, None, {})


LISTED = [row for row in ROWS if hardware.gpu(row.key.gpu)]


@pytest.mark.parametrize("row", some(LISTED[:: len(LISTED) // 5], 2), ids=lambda row: row.id)
def test_the_command_line_says_the_same(folder: Path, row: Reference) -> None:
    key = row.key
    log = write(folder, row, 0.85, None, {})
    options = {"recipe": key.recipe, "gpu": key.gpu, "precision": key.precision, "num-gpus": key.num_gpus}
    options |= {"gbs": key.gbs, "seq-length": key.seq_length, "num-layers": key.num_layers}
    flat = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    result = call("compare", log, *flat, "--json")
    verdict = json.loads(result.stdout)
    assert (result.returncode, verdict["verdict"]) == (1, "slow")
    assert verdict["checks"][0]["reference"]["id"] in {row.id for row in rule(row, "megatron-lm", {})}
