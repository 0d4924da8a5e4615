"""Rows that mean nothing: each has empty numbers and a reason, and the other rows keep theirs."""

import csv
import io
from pathlib import Path

import pytest
from selection import pairs

from benchrun.capabilities.predict.prediction import predicted_rows
from benchrun.cli import main

GOOD = {
    **{"model": "llama3-8b", "gpu": "H100", "num_gpus": "8", "tp": "1", "pp": "1", "mbs": "1", "gbs": "128"},
    **{"seq_len": "8192", "precision": "BF16"},
}


def table(*rows: dict[str, str]) -> tuple[list[dict[str, str]], list[str]]:
    text, out, reasons = io.StringIO(), io.StringIO(), list[str]()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    predicted_rows(io.StringIO(text.getvalue()), out, reasons.append)
    return list(csv.DictReader(io.StringIO(out.getvalue()))), reasons


COLUMNS = ["num_gpus", "tp", "pp", "mbs", "gbs", "seq_len"]
RUBBISH = ["inf", "nan", "-1", "0", "1e30", "9" * 400, "x"]


@pytest.mark.parametrize(("column", "value"), pairs(COLUMNS, RUBBISH))
def test_a_row_with_rubbish_has_a_reason_and_the_others_stay(column: str, value: str) -> None:
    rows, reasons = table(GOOD, {**GOOD, column: value}, GOOD)
    assert [bool(row["predicted_s"]) for row in rows] == [True, False, True]
    assert rows[0] == rows[2]
    assert len(reasons) == 1
    assert reasons[0].startswith("line 3: ")


@pytest.mark.parametrize(("task", "length"), [("pretrain", "8192"), ("lora", "4096"), ("", "8192")])
def test_an_empty_sequence_length_is_the_recipes(task: str, length: str) -> None:
    columns = [*GOOD, "task"]
    text, out, reasons = io.StringIO(), io.StringIO(), list[str]()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows([{**GOOD, "task": task, "seq_len": ""}, {**GOOD, "task": task, "seq_len": length}])
    assert predicted_rows(io.StringIO(text.getvalue()), out, reasons.append) == 2
    taken, stated = csv.DictReader(io.StringIO(out.getvalue()))
    assert (taken["seq_len"], stated["seq_len"]) == ("", length)
    assert taken["predicted_s"] == stated["predicted_s"] != ""
    assert [length in reason and reason.startswith("line 2: ") for reason in reasons] == [True]


def test_without_a_recipe_it_is_that_of_published_rows() -> None:
    rows, reasons = table({**GOOD, "model": "mpt-7b", "seq_len": ""}, {**GOOD, "model": "mpt-7b", "seq_len": "2048"})
    assert rows[0]["predicted_s"] == rows[1]["predicted_s"] != ""
    assert len(reasons) == 1 and "2048" in reasons[0]


def test_a_row_named_by_a_recipe_without_a_sequence_length_leaves_the_others() -> None:
    rows, reasons = table({**GOOD, "model": "llama3.3-70b-inference", "seq_len": ""}, GOOD)
    assert [bool(row["predicted_s"]) for row in rows] == [False, True]
    assert any(reason.startswith("line 2: ") for reason in reasons)


def test_where_nobody_tells_the_sequence_length_is_needed() -> None:
    rows, reasons = table({**GOOD, "model": "nobody", "seq_len": ""})
    assert rows[0]["predicted_s"] == ""
    assert len(reasons) == 1


def test_an_unknown_model_is_a_gpt_of_its_parameters_and_layers() -> None:
    columns = [*GOOD, "params_b", "layers"]
    text, out, reasons = io.StringIO(), io.StringIO(), list[str]()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    sizes = [("gpt3-175b", "", ""), ("nobody", "175", "96"), ("nobody", "175", ""), ("nobody", "350", "96")]
    rows = [dict(zip(("model", "params_b", "layers"), size, strict=True)) for size in sizes]
    writer.writerows({**GOOD, "num_gpus": "64", "tp": "8", "pp": "8", **row} for row in rows)
    assert predicted_rows(io.StringIO(text.getvalue()), out, reasons.append) == 3
    known, alike, unknown, larger = (row["predicted_s"] for row in csv.DictReader(io.StringIO(out.getvalue())))
    assert float(alike) == pytest.approx(float(known), rel=0.15)
    assert unknown == ""
    assert float(larger) > 1.7 * float(alike)


@pytest.mark.parametrize(("column", "value"), [("tp", "3"), ("tp", "16"), ("tp", "1.5"), ("seq_len", "100.5")])
def test_a_layout_that_divides_nothing_is_not_predicted(column: str, value: str) -> None:
    rows, _ = table({**GOOD, column: value})
    assert rows[0]["predicted_s"] == ""


IMPOSSIBLE: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"gpu": "A100", "precision": "FP8"}, {"precision": "BF16"}),
    ({"gpu": "A100", "precision": "FP8-CS"}, {"gpu": "H100"}),
    ({"precision": "NVFP4"}, {"gpu": "B200"}),
    ({"precision": "FP32"}, {"precision": "FP16"}),
    ({"pp": "64"}, {"pp": "32"}),
    ({"pp": "16", "vp": "4"}, {"vp": "2"}),
    ({"model": "mixtral-8x7b", "ep": "16"}, {"ep": "8"}),
    ({"model": "mixtral-8x7b", "pp": "16", "ep": "8"}, {"pp": "8"}),
]


@pytest.mark.parametrize(("changes", "mended"), IMPOSSIBLE)
def test_what_no_gpu_or_layout_can_do_is_not_predicted(changes: dict[str, str], mended: dict[str, str]) -> None:
    row, reasons = single(num_gpus="64", **changes)
    assert (row["predicted_s"], len(reasons)) == ("", 1)
    row, reasons = single(num_gpus="64", **changes | mended)
    assert row["predicted_s"] and not reasons


@pytest.mark.parametrize(("gbs", "mbs"), [("4", "1"), ("128", "3")])
def test_a_batch_that_does_not_fill_the_ranks_is_predicted_and_said(gbs: str, mbs: str) -> None:
    (row, _), reasons = table({**GOOD, "gbs": gbs, "mbs": mbs}, GOOD)
    assert row["predicted_s"]
    assert len(reasons) == 1 and reasons[0].startswith("line 2: ")


@pytest.mark.parametrize(
    ("column", "name", "other"),
    [
        ("model", "llama3-8b", "Llama3-8B"),
        ("model", "deepseek-v3-671b", "deepseek_v3"),
        ("model", "kimi-k2", "kimi-k2-1T"),
        ("gpu", "A100-40GB", "A100-40"),
        ("gpu", "H100", "NVIDIA H100 80GB HBM3"),
        ("gpu", "H200", "H200-SXM-141GB"),
        ("precision", "FP8", "fp8_ds (TE)"),
        ("precision", "MXFP8", "FP8 (MX)"),
        ("pp", "", "N/A"),
    ],
)
def test_other_names_that_tables_use(column: str, name: str, other: str) -> None:
    rows, reasons = table(*({**GOOD, "num_gpus": "64", column: each} for each in (name, other)))
    assert rows[0]["predicted_s"] == rows[1]["predicted_s"] != ""
    assert not [reason for reason in reasons if reason.startswith("line 2")]


@pytest.mark.parametrize("name", ["llama3", "gpt-5", "mpt-1", "llama3-8b-lora", "", "--"])
def test_a_name_that_several_models_or_none_have_is_not_predicted(name: str) -> None:
    rows, reasons = table({**GOOD, "model": name})
    assert (rows[0]["predicted_s"], len(reasons)) == ("", 1)


def test_names_of_columns_may_have_capitals_and_spaces_and_any_order() -> None:
    cells = {f" {name.upper()}": value for name, value in reversed(GOOD.items())}
    text, out = ",".join(cells) + "\n" + ",".join(cells.values()) + ",surplus\n", io.StringIO()
    assert predicted_rows(io.StringIO(text), out, lambda line: None) == 1
    row = next(csv.DictReader(io.StringIO(out.getvalue())))
    assert row["predicted_s"] == table(GOOD)[0][0]["predicted_s"] != ""
    assert list(row)[: len(cells)] == list(cells)


def single(**changes: str) -> tuple[dict[str, str], list[str]]:
    columns = [*GOOD, "vp", "ep", "task", "layers", "notes", "source_id"]
    text, out, reasons = io.StringIO(), io.StringIO(), list[str]()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerow({**GOOD, **changes})
    predicted_rows(io.StringIO(text.getvalue()), out, reasons.append)
    return next(csv.DictReader(io.StringIO(out.getvalue()))), reasons


@pytest.mark.parametrize("layers", ["0", "-4", "1.5", "1e30", "nan", "x"])
def test_layers_are_a_whole_number(layers: str) -> None:
    row, reasons = single(layers=layers)
    assert (row["predicted_s"], len(reasons)) == ("", 1)
    assert "layers" in reasons[0]


def test_fewer_layers_take_less_time() -> None:
    whole, half = (float(single(layers=layers)[0]["predicted_s"]) for layers in ("32", "16"))
    assert 0.4 * whole < half < 0.7 * whole
    published, noted = ({"layers": "16", "source_id": "dgxc", "notes": notes} for notes in ("", "proxy"))
    assert float(single(**published)[0]["predicted_s"]) > 1.4 * float(single(**noted)[0]["predicted_s"])


@pytest.mark.parametrize("task", ["grpo", "llama-ppo", "inference", "offline"])
def test_only_a_training_step_is_predicted(task: str) -> None:
    row, reasons = single(task=task)
    assert (row["predicted_s"], len(reasons)) == ("", 1)


@pytest.mark.parametrize("model", ["deepseek-v3", "qwen3-32b", "llama3.2-1b", "nemotron-h-56b"])
def test_a_model_of_the_suite_is_known_by_its_own_name(model: str) -> None:
    row, reasons = single(model=model, num_gpus="64")
    assert float(row["low_s"]) <= float(row["predicted_s"]) <= float(row["high_s"])
    assert not reasons


@pytest.mark.parametrize("other", [["llama3.1-8b"], ["--num-gpus", "8"], ["--calibrate", "run"], ["--gpu", "H100"]])
def test_a_table_goes_with_no_option_that_it_would_ignore(other: list[str], tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(",".join(GOOD) + "\n" + ",".join(GOOD.values()) + "\n")
    for given, code in (([], 0), (other, 2)):
        with pytest.raises(SystemExit) as ended:
            main(["predict", "--csv", str(table), *given])
        assert ended.value.code == code


@pytest.mark.parametrize(("models", "code"), [([], 4), (["nobody"], 4), (["nobody", "llama3-8b"], 0)])
def test_a_table_of_which_no_row_is_predicted_ends_with_4(models: list[str], code: int, tmp_path: Path) -> None:
    lines = [GOOD, *({**GOOD, "model": model}.values() for model in models)]
    (tmp_path / "rows.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    with pytest.raises(SystemExit) as ended:
        main(["predict", "--csv", str(tmp_path / "rows.csv")])
    assert ended.value.code == code


@pytest.mark.parametrize(
    ("column", "word", "usual"),
    [("task", "LoRA", "lora"), ("task", "SFT", "sft"), ("task", "fine-tuning", "sft"), ("recompute", "Full", "full")],
)
def test_capitals_mean_the_same(column: str, word: str, usual: str) -> None:
    rows, reasons = table(*({**GOOD, column: text} for text in (word, usual, "")))
    assert rows[0]["predicted_s"] == rows[1]["predicted_s"] != rows[2]["predicted_s"]
    assert reasons == []


@pytest.mark.parametrize(("column", "word"), [("task", "reward model"), ("recompute", "yes")])
def test_an_unknown_word_is_named_with_what_it_is_taken_for(column: str, word: str) -> None:
    rows, reasons = table({**GOOD, column: word}, GOOD)
    assert rows[0]["predicted_s"] == rows[1]["predicted_s"]
    assert len(reasons) == 1
    assert reasons[0].startswith(f"line 2: {column} is {word}: predicted as ")


@pytest.mark.parametrize("more", [1, 2, 5])
def test_cells_beyond_the_header_are_named(more: int) -> None:
    lines = [",".join(GOOD), ",".join(GOOD.values()), ",".join([*GOOD.values(), *["7"] * more])]
    out, reasons = io.StringIO(), list[str]()
    assert predicted_rows(io.StringIO("\n".join(lines) + "\n"), out, reasons.append) == 2
    assert len(reasons) == 1 and reasons[0].startswith(f"line 3: {more} more cells")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("seq_length", "seq_len"), ("num_gpu", "num_gpus"), ("layer", "layers"), ("recomputed", "recompute")],
)
def test_a_column_that_resembles_a_missing_one_is_named(wrong: str, right: str) -> None:
    row = {**{name: value for name, value in GOOD.items() if name != right}, wrong: "1"}
    _, reasons = table(row)
    assert f"line 1: column '{wrong}' is not read: {right} is right" in reasons
