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


@pytest.mark.parametrize(("column", "value"), [("tp", "3"), ("tp", "16"), ("tp", "1.5"), ("seq_len", "100.5")])
def test_a_layout_that_divides_nothing_is_not_predicted(column: str, value: str) -> None:
    rows, _ = table({**GOOD, column: value})
    assert rows[0]["predicted_s"] == ""
