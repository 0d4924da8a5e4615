"""Small logs that a version before 0.2 read wrongly, each with its truth in cases.csv: exit code and values.

They were typed in the form of real ones. Of each kind there are many more in `tests/generated`.
"""

import csv
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchrun.cli import main

HERE = Path(__file__).parent
CASES = list(csv.DictReader((HERE / "cases.csv").open(encoding="utf-8", newline="")))
STATEMENT = re.compile(r"([\w.]+)([=~])(.*?)(?= [\w.]+[=~]|$)")
"""A place in the answer, whether it equals or contains, and what."""
ROUNDED = 0.003
"""Relative: how far a value is from one that the table has with few digits."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the logs, out of their archive."""
    folder = tmp_path_factory.mktemp("logs")
    with tarfile.open(HERE / "logs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def fits(value: Any, how: str, wanted: str) -> bool:
    if how == "~":
        return wanted in value
    if isinstance(value, (int, float)):
        return value == pytest.approx(float(wanted), rel=ROUNDED)
    return str("null" if value is None else value) == wanted


def test_every_log_has_a_case(logs: Path) -> None:
    assert {case["log"] for case in CASES} == {path.name for path in logs.iterdir()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['log']}-{case['verb']}")
def test_a_log_gives_its_truth(logs: Path, case: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(logs / case["log"])]
    options = case["options"].split()
    if case["verb"] == "diff":
        files, options = [str(logs / options[0]), *files], []
    with pytest.raises(SystemExit) as ended:
        main([case["verb"], *files, *options, "--json"])
    assert int(ended.value.code or 0) == int(case["code"])
    if statements := STATEMENT.findall(case["says"]):
        document = json.loads(capsys.readouterr().out)
        for path, how, wanted in statements:
            assert fits(at(document, path), how, wanted), (path, at(document, path))
