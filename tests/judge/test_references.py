"""The published numbers: every row is whole, fits itself or says that it does not, and stands once."""

import csv
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchrun import hardware, paths
from benchrun.errors import UserError
from benchrun.judge.conditions import HARD
from benchrun.judge.references import FAST, SLOW, Reference, load_references
from tests.judge.recount import SHAPES, fit, model_of, rates

ENTRIES = load_references()
TRAINED = ("pretrain", "sft", "lora")
SPEEDS = [entry for entry in ENTRIES if entry.metric != "final_loss" and entry.key.task in TRAINED]
FILES = sorted(paths.REFERENCE.glob("*.csv"))


def cells() -> Any:
    """Id -> the row as it is written."""
    rows = {}
    for path in FILES:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            rows |= {f"{path.stem}:{reader.line_num}": row for row in reader}
    return rows


CELLS = cells()


def test_every_row_is_an_entry_of_its_own_file() -> None:
    assert len(ENTRIES) == len(CELLS) > 700
    assert all(entry.id.split(":")[0] == entry.key.recipe for entry in ENTRIES)


class TestEveryRowIsRecounted:
    """Tokens/s, step time, TFLOPS and MFU of one row, each from the others."""

    @pytest.mark.parametrize("recipe", sorted({entry.key.recipe for entry in SPEEDS}))
    def test_what_fits_is_unflagged_and_what_does_not_is_flagged(self, recipe: str) -> None:
        for entry in SPEEDS:
            if entry.key.recipe == recipe:
                assert said(entry) == counted(entry), (entry.id, rates(entry, CELLS[entry.id]))

    def test_most_rows_check_themselves(self) -> None:
        assert sum(len(rates(entry, CELLS[entry.id])) > 1 for entry in SPEEDS) > 500

    def test_a_misprint_is_rare_and_explained(self) -> None:
        wrong = [entry for entry in SPEEDS if said(entry)]
        assert 5 < len(wrong) < 20
        assert all("fit" in entry.notes or "contradict" in entry.notes for entry in wrong)


def said(entry: Reference) -> str | None:
    return next((flag for flag in ("misprint", "side_misprint") if flag in entry.flags), None)


def counted(entry: Reference) -> str | None:
    """Which flag a row deserves. A value is a misprint unless the other numbers need it to be right."""
    found = rates(entry, CELLS[entry.id])
    if fit(found):
        return None
    others = {metric: rate for metric, rate in found.items() if metric != entry.metric}
    return "misprint" if fit(others) else "side_misprint"


def test_no_number_stands_twice() -> None:
    numbers = [(entry.metric, entry.value, entry.printed, entry.key, entry.source.who) for entry in ENTRIES]
    assert len(set(map(repr, numbers))) == len(numbers)


def test_every_number_has_a_source_and_a_date() -> None:
    for entry in ENTRIES:
        source = entry.source
        assert source.who and len(source.where) > 10, entry.id
        assert re.fullmatch(r"20\d\d(-[01]\d(-[0-3]\d)?)?", source.date), entry.id
        if source.who not in ("benchrun",):
            assert re.search(r"[/:]|Blog", source.where), f"{entry.id}: neither repository nor document"


def test_tolerances_are_sane() -> None:
    for entry in SPEEDS:
        # 10 % slower must always be slow, and 30 % faster always need a look.
        assert SLOW <= entry.tolerance_low < 1 - 1 / 1.1, entry.id
        assert entry.tolerance_high == FAST, entry.id
        assert entry.tolerance_low == SLOW or "rounded" in entry.flags, entry.id


def test_a_time_of_few_digits_is_rounded() -> None:
    for entry in (entry for entry in SPEEDS if entry.metric == "step_time_s"):
        _, _, decimals = CELLS[entry.id]["value"].partition(".")
        # Tables of two decimals leave out zeros at the end.
        half = 0.5 * 10 ** -max(len(decimals), 2)
        about = "approximate" in (entry.notes or "")
        assert ("rounded" in entry.flags) == (about or half / entry.value > 0.005), entry.id


def test_direction_and_unit_follow_the_metric() -> None:
    for entry in ENTRIES:
        assert entry.better == {"step_time_s": "lower", "final_loss": "equal"}.get(entry.metric, "higher")
        assert entry.unit


def test_proxies_are_flagged_and_nothing_else_is() -> None:
    for entry in SPEEDS:
        whole = SHAPES[model_of_stem(entry)].num_layers
        assert ("proxy" in entry.flags) == (entry.key.num_layers < whole), entry.id
        assert entry.key.num_layers <= whole, entry.id


def model_of_stem(entry: Reference) -> str:
    assert model_of(entry) is not None, entry.key.recipe
    return entry.key.recipe.removesuffix("-hf").removesuffix("-sft").removesuffix("-lora")


def test_third_parties_are_flagged_and_nothing_else_is() -> None:
    for entry in ENTRIES:
        assert ("third_party" in entry.flags) == (entry.source.who not in ("NVIDIA", "benchrun")), entry.id


def test_a_revised_number_has_its_revision() -> None:
    """It stands beside a newer one, of the same key, framework and image, that is not revised."""
    for old in (entry for entry in ENTRIES if "revised" in entry.flags):
        same = [
            new
            for new in ENTRIES
            if all(getattr(new.key, key) == getattr(old.key, key) for key in (*HARD, "framework", "image", "variant"))
            and "revised" not in new.flags
            and new.value != old.value
        ]
        assert same, old.id


def test_keys_hold_names_that_exist() -> None:
    for entry in SPEEDS:
        key = entry.key
        assert hardware.gpu(key.gpu), entry.id
        assert key.precision in ("bf16", "fp8", "fp16", "nvfp4", None), entry.id
        assert key.fp8_recipe is None or key.precision == "fp8", entry.id
        assert key.task == ("sft" if "-sft" in key.recipe else "lora" if lora(key.recipe) else "pretrain"), entry.id


def lora(recipe: str) -> bool:
    return "-lora" in recipe or recipe == "mistral-7b-hf"


def test_layouts_divide_the_gpus() -> None:
    for entry in SPEEDS:
        key = entry.key
        if key.num_gpus:
            model_parallel = (key.tp or 1) * (key.pp or 1) * (key.cp or 1)
            assert key.num_gpus % model_parallel == 0, entry.id
            if key.gbs and key.mbs and key.pp:
                assert key.gbs % (key.num_gpus // model_parallel) == 0, entry.id


def test_an_mfu_is_divided_by_a_peak_of_its_gpu() -> None:
    for entry in SPEEDS:
        if entry.peak_tflops:
            gpu = hardware.gpu(entry.key.gpu)
            # NVIDIA's recipes give the GB200 2450 and 4900.
            peaks = {gpu.peak_bf16_tflops, gpu.peak_fp8_tflops, *((2450, 4900) if gpu.name == "GB200" else ())}
            assert entry.peak_tflops in peaks, entry.id


class TestWhatIsNoEntry:
    """One clear error, with the line and what is wrong."""

    good: ClassVar = {
        "metric": "step_time_s",
        "value": "9.8",
        **{"recipe": "x", "task": "pretrain", "gpu": "H100", "num_gpus": "8", "precision": "fp8", "num_layers": "32"},
        **{"seq_length": "8192", "gbs": "128", "framework": "nemo1", "mfu_percent": "", "convention": ""},
        **{"gflop_per_token": "", "peak_tflops": "", "who": "me", "where": "here", "date": "2026-01", "flags": ""},
    }

    @pytest.mark.parametrize(
        ("column", "cell", "says"),
        [
            ("value", "fast", "value"),
            ("value", "-1", "value"),
            ("metric", "steps", "metric"),
            ("gpu", "", "gpu"),
            ("framework", "nemo 1", "framework nemo 1 is none of"),
            ("flags", "guessed", "flags"),
            ("mfu_percent", "40", "its convention and peak_tflops"),
            ("convention", "dense", "convention"),
            ("gflop_per_token", "57.9", "convention own"),
            ("date", "", "date"),
            ("date", "2026-01,again", "cells, as the header has"),
        ],
    )
    def test_is_named(self, tmp_path: Path, column: str, cell: str, says: str) -> None:
        rows = [self.good, {**self.good, column: cell}]
        lines = [",".join(self.good), *(",".join(row.values()) for row in rows)]
        (tmp_path / "x.csv").write_text("\n".join(lines))
        with pytest.raises(UserError) as error:
            load_references(tmp_path)
        assert error.value.where.endswith("x.csv:3")
        assert says in str(error.value)

    def test_an_empty_condition_is_one_that_nobody_said(self, tmp_path: Path) -> None:
        row = {**self.good, "gbs": ""}
        (tmp_path / "x.csv").write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
        (entry,) = load_references(tmp_path)
        assert entry.key.gbs is None


def rows_of(recipe: str, **said: str) -> list[Reference]:
    return [e for e in ENTRIES if e.key.recipe == recipe and all(getattr(e.key, k) == v for k, v in said.items())]


@pytest.mark.parametrize(
    ("recipe", "num_gpus", "tflops"), [("llama2-7b", 8, 211), ("llama2-13b", 8, 206), ("llama2-70b", 32, 201)]
)
def test_llama2_on_a100_has_its_gpus_and_tflops_and_says_that_its_precision_is_inferred(
    recipe: str, num_gpus: int, tflops: int
) -> None:
    (entry,) = rows_of(recipe, gpu="A100")
    assert (entry.key.num_gpus, entry.printed.tflops_per_gpu, entry.key.precision) == (num_gpus, tflops, "bf16")
    (newer,) = (e for e in rows_of(recipe, gpu="H200") if "Blog" in e.source.where)
    assert "inferred" in entry.flags and "inferred" in newer.flags


def test_a_condition_that_is_inferred_says_from_what() -> None:
    inferred = [entry for entry in ENTRIES if "inferred" in entry.flags]
    assert inferred and all("not printed" in (entry.notes or "") for entry in inferred)


def test_fsdp_and_3d_were_compared_with_one_batch() -> None:
    found = [entry.key for entry in ENTRIES if entry.metric == "fsdp_over_3d"]
    assert {(key.precision, key.seq_length, key.gbs) for key in found} == {("bf16", 2048, 256)}


def test_fine_tuning_on_a_node_of_h200_is_a_floor_with_the_conditions_of_the_posts_table() -> None:
    (entry,) = rows_of("llama2-70b-sft", gpu="H200")
    assert (entry.key.num_gpus, entry.value * 8) == (8, 15_000)
    assert 18 < 1e9 / 15_000 / 3600 < 19  # a billion tokens in just over 18 hours
    assert {"floor", "inferred"} <= {*entry.flags}
    table = next(row for row in rows_of("llama2-70b", gpu="H200") if row.source.where == entry.source.where)
    for condition in ("num_gpus", "precision", "seq_length", "gbs"):
        assert getattr(entry.key, condition) == getattr(table.key, condition)
    assert 8 * table.value > 15_000 and 18 < 1e9 / (8 * table.value) / 3600 < 18.5


def test_a_revised_number_cites_the_page_before_its_revision() -> None:
    """A commit after it no longer holds the value: both cannot be of one."""
    for old in (entry for entry in ENTRIES if "revised" in entry.flags and "Megatron-Bridge" in entry.source.where):
        new = [e for e in ENTRIES if e.key == old.key and "revised" not in e.flags]
        assert new and all(e.source.where != old.source.where and e.source.date > old.source.date for e in new), old.id


PROMPTS = {"llama3.1-8b-grpo": 130}
"""Tokens of a prompt by the model's tokenizer; of the others about 108."""


def test_rate_and_time_of_nemo_rl_mean_the_printed_length() -> None:
    """Tokens/s times GPUs times step time are the answers and their prompts, within 5 %; other rows are misprints."""
    rows = [entry for entry in ENTRIES if entry.key.framework == "nemo-rl"]
    assert len(rows) > 70
    for rate, time in zip(rows[::2], rows[1::2], strict=True):
        assert (rate.metric, time.metric) == ("tokens_per_s_per_gpu", "step_time_s")
        assert rate.key == time.key, rate.id
        prompts, answers = map(int, re.findall(r"(?:per_step|per_prompt) (\d+)", rate.key.settings))
        answer = int(re.search(r"([\d,]+) tokens a sequence", rate.notes)[1].replace(",", ""))
        expected = prompts * answers * (answer + PROMPTS.get(rate.key.recipe, 108))
        ratio = rate.value * rate.key.num_gpus * time.value / expected
        assert ("misprint" in rate.flags) == ("misprint" in time.flags) == (abs(ratio - 1) > 0.05), (rate.id, ratio)


def test_an_overview_of_tensorrt_llm_states_all_gpus_or_one() -> None:
    rows = [entry for entry in ENTRIES if entry.key.framework == "trtllm" and "verview" in entry.source.where]
    assert len(rows) > 600
    for entry in rows:
        key = entry.key
        assert key.num_gpus == key.tp * key.pp * (key.ep or 1), entry.id
        total = entry.printed.tokens_per_s
        assert (total is None) == (key.framework_version != "1.0"), entry.id
        assert total is None or entry.value == pytest.approx(total / key.num_gpus, rel=2e-4), entry.id
        beta = key.framework_version == "1.2" and key.gpu in ("B300", "GB300")
        assert ("warned" in entry.flags) == beta, entry.id


def test_a_warning_is_the_publishers() -> None:
    warned = [entry for entry in ENTRIES if "warned" in entry.flags]
    assert warned and all(entry.notes.startswith(f"{entry.source.who}: ") for entry in warned)
