"""What limits a verdict stands in its first line and in its labels; what makes it worthless gives none."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_measured import finished

from benchrun import api
from benchrun.cli.logs import compare
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS, parse_log
from benchrun.judge.verdict import Verdict
from benchrun.measure.convention import identify
from benchrun.measure.printed import AGREES
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.model import ModelShape
from benchrun.model.flops import flops_per_token
from benchrun.recipes.catalogue import recipe_file
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.show.terminal import verdict_view
from tests.judge.recount import SHAPES

LOGS = Path(__file__).parents[1] / "logs"
STEPS = 50
RECIPE = "llama3.1-8b"
POINT = {"gpu": "H100", "precision": "bf16", "num_gpus": 8}
OPTIONS = ["--recipe", RECIPE, "--gpu", "H100", "--precision", "bf16", "--num-gpus", "8"]
TIME_S = 12.3
"""A step of 128 sequences, about as published."""


def line(
    n: int, time_s: float = TIME_S, *, skipped: int = 0, tflops: float | None = None, gbs: None = 128, every: int = 1
) -> str:
    printed = f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |" if tflops else ""
    batch = f" global batch size: {gbs:5d} |" if gbs else ""
    return (
        f" iteration {n * every:8d}/{STEPS * every:8d} | elapsed time per iteration (ms): {1000 * time_s:.1f} |"
        f"{printed}{batch} lm loss: 2.0E+00 | number of skipped iterations: {skipped:3d} |"
        f" number of nan iterations:   0 |\n"
    )


def judged(tmp_path: Path, rows: list[str], recipe: Any = RECIPE, **given: ModelShape | int) -> Verdict:
    log = tmp_path / "x.log"
    log.write_text("".join(rows))
    model = recipe_file(recipe).recipe.model
    setting = Setting(**{**POINT, "model": model, **given})
    return api.judge_log(parse_log(log), recipe, setting)[0]


def codes(verdict: Verdict) -> list[str]:
    return [label.code for label in verdict.labels]


def test_a_proxy_is_named_with_what_was_cut(tmp_path: Path) -> None:
    proxy = recipe_file(RECIPE).recipe.model.model_copy(update={"num_layers": 4})
    found = judged(tmp_path, [line(n) for n in range(1, STEPS + 1)], model=proxy)
    assert (codes(found), found.labels[0].text) == (["proxy"], "proxy: num_layers 4 of 32")
    first = verdict_view(found, None).plain.splitlines()[0]
    assert first.startswith(f"NOT_COMPARABLE (proxy: num_layers 4 of 32)  {RECIPE}, ")


def test_a_launched_proxy_is_named_too(tmp_path: Path) -> None:
    spec = resolve(Request("gpt3-175b", "H200", "fp8", 2))
    found = api.judge_runs([finished(tmp_path, spec)]).verdict
    assert "proxy" in codes(found)
    assert found.labels[0].text == "proxy: num_layers 2 of 96"
    assert found.headline.startswith(f"{found.verdict.upper()} (proxy: num_layers 2 of 96")


def test_the_whole_model_run_evenly_has_no_label(tmp_path: Path) -> None:
    found = judged(tmp_path, [line(n) for n in range(1, STEPS + 1)])
    assert (found.verdict, found.labels) == ("pass", ())
    assert verdict_view(found, None).plain.startswith(f"PASS  {RECIPE}, ")


@pytest.mark.parametrize(
    ("word", "changed", "code"),
    [
        ("2.0E+00 | grad norm: inf", range(1, 51), "infinite_norm"),
        ("2.0E+00 | grad norm: inf", range(20, 26), "infinite_norm"),
        ("2.0E+00 | grad norm: inf", range(20, 25), None),
        ("nan", [12], "few_nan_losses"),
        ("inf", [12, 30], "few_nan_losses"),
    ],
)
def test_a_run_that_trains_in_most_steps_keeps_its_speed_and_names_the_others(
    tmp_path: Path, word: str, changed: Any, code: str | None
) -> None:
    usual = "2.0E+00 | grad norm: 1.0"
    rows = [line(n).replace("2.0E+00", word if n in changed else usual) for n in range(1, STEPS + 1)]
    found = judged(tmp_path, rows)
    assert (found.verdict, codes(found)) == ("pass", [code] if code else [])


@pytest.mark.parametrize(("skipping", "verdict"), [(1, "pass"), (5, "pass"), (6, "invalid_run"), (50, "invalid_run")])
def test_more_than_a_tenth_without_an_update_is_no_measurement_and_fewer_are_named(
    tmp_path: Path, skipping: int, verdict: str
) -> None:
    found = judged(tmp_path, [line(n, skipped=int(n > STEPS - skipping)) for n in range(1, STEPS + 1)])
    assert (found.verdict, codes(found)) == (verdict, ["skipped_updates"])
    assert found.labels[0].text.startswith(f"{skipping} of 50 steps")
    assert found.reason.startswith("skipped_steps") == (verdict == "invalid_run")


def test_rows_that_stand_for_ten_steps_count_as_ten(tmp_path: Path) -> None:
    found = judged(tmp_path, [line(n, skipped=10 * (n == 4), every=10) for n in range(1, STEPS + 1)])
    assert (found.verdict, found.labels[0].text[:9]) == ("pass", "10 of 500")


def test_a_step_time_that_drifts_is_named(tmp_path: Path) -> None:
    found = judged(tmp_path, [line(n, TIME_S * (0.97 + 0.06 * n / STEPS)) for n in range(1, STEPS + 1)])
    assert codes(found) == ["drifting"]


def tflops(convention: str, model: ModelShape, task: Any = "pretrain") -> float:
    rate = 128 * 8192 / 8 / TIME_S
    return rate * getattr(flops_per_token(model, 8192, task=task), convention) / 1e12


@pytest.mark.parametrize("convention", ["full", "causal"])
def test_a_printed_tflops_of_this_model_is_no_matter(tmp_path: Path, convention: str) -> None:
    printed = tflops(convention, SHAPES[RECIPE])
    for off in (1.0, 1.015, 0.985):
        assert judged(tmp_path, [line(n, tflops=off * printed) for n in range(1, STEPS + 1)]).verdict == "pass"


@pytest.mark.parametrize(
    "printed", [100.0, 0.93 * tflops("causal", SHAPES[RECIPE]), tflops("causal", SHAPES["llama2-13b"])]
)
def test_a_printed_tflops_of_another_model_gives_no_verdict(tmp_path: Path, printed: float) -> None:
    found = judged(tmp_path, [line(n, tflops=printed) for n in range(1, STEPS + 1)])
    assert (found.verdict, found.checks, found.exit_code) == ("invalid_run", (), 4)
    assert found.reason.startswith("unexplained_tflops")


def test_a_batch_that_was_typed_in_must_agree_too(tmp_path: Path) -> None:
    rows = [line(n, tflops=tflops("causal", SHAPES[RECIPE]) / 2, gbs=None) for n in range(1, STEPS + 1)]
    found = judged(tmp_path, rows, gbs=128)
    assert (found.verdict, found.reason[:18]) == ("invalid_run", "unexplained_tflops")
    assert judged(tmp_path, rows, gbs=64).verdict == "not_comparable"


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.8, "pass"), (1.2, "pass"), (0.5, "invalid_run"), (2.0, "invalid_run")]
)
def test_a_printed_tflops_of_an_unknown_convention_is_checked_roughly(
    tmp_path: Path, share: float, verdict: str
) -> None:
    printed = share * tflops("causal", SHAPES[RECIPE])
    rows = [
        f"Training epoch 0, iteration {n}/{STEPS - 1} | lr: 1e-06 | global_batch_size: 128 | global_step: {n} |"
        f" reduced_train_loss: 2.0 | train_step_timing in s: {TIME_S} | TFLOPS_per_GPU: {printed:.1f} |"
        " consumed_samples: 9\n"
        for n in range(STEPS)
    ]
    assert judged(tmp_path, rows).verdict == verdict


def test_the_labels_are_in_the_document_and_an_older_one_is_still_read(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(line(n, skipped=int(n == 9)) for n in range(1, STEPS + 1)))
    result = CliRunner().invoke(compare, [str(log), *OPTIONS, "--json"])
    document = json.loads(result.stdout)
    assert [label["code"] for label in document["labels"]] == ["skipped_updates"]
    assert document["chosen_because"]["candidates"] == 3
    older = {key: value for key, value in document.items() if key not in ("labels", "chosen_because", "warmup")}
    read = Verdict.model_validate(older)
    assert (read.verdict, read.labels, read.chosen_because, read.warmup) == ("pass", (), None, None)


@pytest.mark.parametrize("number", ["06", "07"])
def test_what_real_logs_of_megatron_print_is_explained_by_their_models(number: str) -> None:
    (file,) = LOGS.glob(f"{number}-*")
    found = summarise(parse_log(file))
    model = ModelShape.model_validate({**found.model, "max_position_embeddings": found.seq_length})
    printed, tokens = found.tflops_per_gpu_reported.median, found.tokens_per_s_per_gpu.median
    ways = DIALECTS["megatron-lm"].printed_conventions
    assert identify(printed, tokens, model, found.seq_length, ways, tolerance=AGREES)
    assert not identify(1.3 * printed, tokens, model, found.seq_length, ("full", "causal"), tolerance=AGREES)


ARGUMENTS = {
    **{"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "ffn_hidden_size": 14336},
    **{"num_query_groups": 8, "group_query_attention": True, "seq_length": 8192, "padded_vocab_size": 128256},
}


def dump(**arguments: bool) -> list[str]:
    """An argument dump of Megatron-LM."""
    return [f"  {name} {'.' * (48 - len(name))} {value}\n" for name, value in {**ARGUMENTS, **arguments}.items()]


def test_gates_that_a_log_does_not_state_are_those_of_the_recipe(tmp_path: Path) -> None:
    rows = [line(n) for n in range(1, STEPS + 1)]
    (tmp_path / "x.log").write_text("".join([*dump(), *rows]))
    model = recipe_file(RECIPE).recipe.model
    summary = summarise(parse_log(tmp_path / "x.log"), given=Setting(**POINT, model=model))
    full = flops_per_token(model, 8192).full * 128 * 8192 / 8 / TIME_S / 1e12
    assert summary.tflops_per_gpu.full == pytest.approx(full, rel=1e-6)


def test_a_log_that_states_other_gates_is_of_another_model(tmp_path: Path) -> None:
    rows = [line(n) for n in range(1, STEPS + 1)]
    with pytest.raises(UserError) as error:
        judged(tmp_path, [*dump(swiglu=False), *rows])
    assert error.value.exit_code == 2
    assert judged(tmp_path, [*dump(swiglu=True), *rows]).verdict == "pass"


def test_a_few_timed_rows_are_named(tmp_path: Path) -> None:
    rows = [line(n).replace(f"/{STEPS:8d}", f"/{8:8d}") for n in range(1, 9)]
    found = judged(tmp_path, rows)
    assert (found.verdict, codes(found)) == ("pass", ["few_steps"])


@pytest.mark.parametrize(("time_s", "verdict"), [(23.0, "pass"), (35.0, "pass"), (40.0, "slow")])
def test_nothing_is_too_fast_beside_a_floor(tmp_path: Path, time_s: float, verdict: str) -> None:
    """More than 15,000 tokens/s are published for the node: 34.95 s for 128 sequences of 4096 tokens."""
    rows = [line(n, time_s) for n in range(1, STEPS + 1)]
    found = judged(tmp_path, rows, "llama2-70b-sft", gpu="H200", precision="fp8", seq_length=4096)
    check = found.checks[0]
    assert (found.verdict, check.reference.flags) == (verdict, ("rounded", "floor", "inferred"))
    assert check.band == (0.95, None)
    assert Verdict.model_validate_json(found.model_dump_json()) == found
