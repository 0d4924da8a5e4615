"""One report in every format: the same points everywhere, and a page that people can read."""

import re
from xml.etree import ElementTree

import pytest

from benchrun import api
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import ProblemEntry
from benchrun.show.formats import formatted
from benchrun.show.junit import junit
from benchrun.show.model import ReportModel, report_model


def test_every_format_has_every_point(report: ReportModel) -> None:
    points = len(report.points.rows)
    assert len(formatted(report, "csv").splitlines()) == 1 + points
    assert len(report.readable.rows) == points
    lines = formatted(report, "terminal").splitlines()
    assert lines[0].split()[:5] == ["POINT", "LAYOUT", "BATCH", "MICRO", "SEQUENCE"]
    assert [line for line in formatted(report, "markdown").splitlines() if line.startswith("| llama3.1-8b")]


def test_csv_and_json_identify_each_point(report: ReportModel) -> None:
    records = report.points.records()
    stated = {"run_ids", "launched", "image", "identity", "verdict", "layout", "task", "proxy", "options"}
    assert stated | {"seq_length", "gbs", "mbs", "tp", "pp", "cp", "vp", "ep", "dp"} <= records[0].keys()
    ids = [name for record in records for name in record["run_ids"].split()]
    assert sorted(ids) == sorted(run.run_id for run in report.results)


def test_no_two_rows_for_readers_look_the_same(report: ReportModel) -> None:
    titles = [str(title) for title in report.readable.titles]
    stated = [row[: titles.index("runs")] for row in report.readable.rows]
    assert len(set(map(tuple, stated))) == len(stated)


def test_a_server_has_its_speed_and_is_named_a_proxy(report: ReportModel) -> None:
    rows = [row for row in report.readable.records() if row["point"].startswith("llama3.3-70b-inference")]
    assert all("(proxy: num_layers 4 of 80)" in row["point"] and row["step time s"] is None for row in rows)
    (slowest,) = (row for row in rows if row["served"].startswith("272 output tokens/s/GPU, "))
    assert "182.1 median TTFT ms" in slowest["served"]


def test_runs_of_one_recipe_stand_together_the_oldest_first(report: ReportModel) -> None:
    recipes = [result.spec.recipe for result in report.results]
    assert recipes == sorted(recipes)


def test_a_table_fits_the_terminal_and_loses_nothing(report: ReportModel, scaling_study: ReportModel) -> None:
    for model, width in ((report, 140), (report, 160), (scaling_study, 110)):
        whole, narrow = (formatted(model, "terminal", width=each) for each in (None, width))
        assert max(map(len, narrow.splitlines())) <= width < max(map(len, whole.splitlines()))
        assert sorted(re.sub(r"\s", "", narrow)) == sorted(re.sub(r"\s", "", whole))


def test_a_terminal_that_is_too_narrow_gets_whole_lines(report: ReportModel) -> None:
    assert formatted(report, "terminal", width=60) == formatted(report, "terminal")


HOSTILE = "a\x1b[31mred\x00 <script>alert(1)</script> | pipe\nline ]]> & \ufffe"
"""What a log may contain."""


def hostile(report: ReportModel) -> RunResult:
    """A run whose log and verdict contain it."""
    first = next(result for result in report.results if result.verdict and result.metrics)
    problem = ProblemEntry(kind="cuda_error", line=3, detail=HOSTILE)
    metrics = first.metrics.model_copy(update={"problems": (problem,)})
    return RunResult(first.run_id, first.spec, metrics, first.verdict.model_copy(update={"reason": HOSTILE}), None)


def test_junit_is_xml_whatever_a_log_contains(report: ReportModel) -> None:
    (case,) = ElementTree.fromstring(junit([hostile(report)]))
    text = case.findtext("system-out") or ""
    assert "<script>" in text and "\x1b" not in text


@pytest.mark.parametrize("one", [True, False])
def test_markdown_has_neither_tags_nor_cells_of_a_log(report: ReportModel, one: bool) -> None:
    model = report_model([hostile(report)])
    text = formatted(model, "markdown", one=one)
    assert "<script" not in text and "\x00" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count(" | ") for line in tables} <= {1, len(model.points.titles)} or not one
    assert not [line for line in tables if line.startswith("| cuda_error") and line.count("|") != 3]


def test_no_run_gives_a_page_too() -> None:
    empty = api.report_on([])
    assert "no runs" in formatted(empty, "html")
    assert (formatted(empty, "terminal"), formatted(empty, "markdown")) == ("no runs\n", "no runs\n")


def test_junit_has_a_case_a_run(report: ReportModel) -> None:
    suite = ElementTree.fromstring(junit(report.results))
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases) == len(report.results)
    verdicts = [run.judgement for run in report.results]
    slow = ("slow", "slower_than_expected")
    assert int(suite.get("failures")) == sum(verdict in slow for verdict in verdicts)
    passed = [case for case in cases if not {child.tag for child in case} & {"failure", "error", "skipped"}]
    assert len(passed) == sum(verdict in ("pass", "as_expected") for verdict in verdicts)


@pytest.mark.parametrize(
    ("verdict", "ending", "element"),
    [("pass", None, None), ("slow", None, "failure"), ("invalid_run", None, "error"), ("inconclusive", None, "skipped"),
     ("as_expected", None, None), ("slower_than_expected", None, "failure"),
     (None, "out_of_memory", "error"), (None, "completed", "skipped")],
)  # fmt: skip
def test_a_verdict_in_junit(report: ReportModel, verdict: str | None, ending: str | None, element: str | None) -> None:
    first = next(result for result in report.results if result.verdict)
    given = first.verdict.model_copy(update={"verdict": verdict}) if verdict else None
    (case,) = ElementTree.fromstring(junit([RunResult(first.run_id, first.spec, first.metrics, given, ending)]))
    assert [child.tag for child in case if child.tag != "system-out"] == ([element] if element else [])
