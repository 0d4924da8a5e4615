"""Rows that mean nothing: each has empty numbers and a reason, and the other rows keep theirs."""

import csv
import io

import pytest

from benchrun.predict.prediction import predicted_rows

GOOD = {
    **{"model": "llama3-8b", "gpu": "H100", "num_gpus": "8", "tp": "1", "pp": "1", "mbs": "1", "gbs": "128"},
    **{"seq_len": "8192", "precision": "BF16"},
}


def table(*rows: dict[str, str]) -> tuple[list[dict[str, str]], list[str]]:
    text, out, reasons = io.StringIO(), io.StringIO(), list[str]()
    writer = csv.DictWriter(text, [*GOOD])
    writer.writeheader()
    writer.writerows(rows)
    predicted_rows(io.StringIO(text.getvalue()), out, reasons.append)
    return list(csv.DictReader(io.StringIO(out.getvalue()))), reasons


@pytest.mark.parametrize("column", ["num_gpus", "tp", "pp", "mbs", "gbs", "seq_len"])
@pytest.mark.parametrize("value", ["inf", "nan", "-1", "0", "1e30", "9" * 400, "x"])
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
    assert predicted_rows(io.StringIO(text.getvalue()), out, reasons.append) == 0
    taken, stated = csv.DictReader(io.StringIO(out.getvalue()))
    assert (taken["seq_len"], stated["seq_len"]) == ("", length)
    assert taken["predicted_s"] == stated["predicted_s"] != ""
    assert [length in reason and reason.startswith("line 2: ") for reason in reasons] == [True]


def test_without_a_recipe_the_sequence_length_is_needed() -> None:
    rows, reasons = table({**GOOD, "model": "mpt-7b", "seq_len": ""})
    assert rows[0]["predicted_s"] == ""
    assert reasons == ["line 2: seq_len is empty"]


@pytest.mark.parametrize(("column", "value"), [("tp", "3"), ("tp", "16"), ("tp", "1.5"), ("seq_len", "100.5")])
def test_a_layout_that_divides_nothing_is_not_predicted(column: str, value: str) -> None:
    rows, _ = table({**GOOD, column: value})
    assert rows[0]["predicted_s"] == ""
