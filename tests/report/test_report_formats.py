"""One report in every format: the same points everywhere, and a page that people can read."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from benchrun import api
from benchrun.capabilities.html.page import page
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import ProblemEntry
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.data import RunData
from benchrun.show.formats import formatted
from benchrun.show.junit import junit
from benchrun.show.model import ReportModel, report_model
from benchrun.show.plot import Plot, Series
from benchrun.show.table import Table

LARGEST = 3_500_000
"""Bytes of a page on all kept runs; on 80 runs, each with all of its plots, it has about as many."""


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
    assert sorted(ids) == sorted(run.run_id for run in report.runs)


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


class Reader(HTMLParser):
    """Collects what a browser would need and what a person would read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "line", "rect", "path", "polyline", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)


@pytest.fixture(scope="module")
def text(report: ReportModel) -> str:
    """The page of the report."""
    return page(report)


def test_the_page_is_one_file_of_bounded_size_without_script(text: str) -> None:
    assert len(text.encode()) < LARGEST
    reader = Reader(text)
    assert (reader.unbalanced, reader.open) == ([], [])
    places = set(re.findall(r' id="([^"]+)"', text))
    assert {address.removeprefix("#") for address in reader.addresses} <= places  # in the page, and nowhere else
    assert "<script" not in text and "url(" not in text and "@import" not in text


def test_few_runs_are_drawn_with_all_of_their_plots(few: ReportModel) -> None:
    assert all(len(run.plots) > 5 for run in few.runs)


def test_every_figure_has_a_name_and_a_table(text: str, report: ReportModel) -> None:
    figures = re.findall(r"<figure[^>]*>.*?</figure>", text, re.S)
    assert len(figures) > 2 * len(report.runs)
    name = (
        r'role="img" aria-labelledby="(\w+)" aria-describedby="\1d"><title id="\1">[^<]+</title><desc id="\1d">[^<]+<'
    )
    for figure in figures:
        assert re.search(name, figure), figure[:300]
        assert re.search(r"<table[^>]*>.*<td", figure, re.S)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_run_with_measured_steps_has_its_waterfall(report: ReportModel) -> None:
    trainings = [result for result in report.results if isinstance(result.spec, TrainingSpec)]
    timed = {result.run_id: result.numbers.step_time_s for result in trainings if result.numbers}
    drawn = {run.run_id: [each for each in run.plots if each.kind == "waterfall"] for run in report.runs}
    assert {name for name, figures in drawn.items() if figures} == {name for name, step in timed.items() if step}
    for figure in (each for figures in drawn.values() for each in figures):
        step_s = figure.table.rows[-1][1]
        assert sum(figure.series[0].y) == pytest.approx(step_s, rel=1e-3)
        assert [row[0] for row in figure.table.rows[:-1]] == list(figure.labels)


def test_a_curve_is_drawn_beside_its_prediction(scaling_study: ReportModel) -> None:
    (section,) = [each for each in scaling_study.sections if each.identity == "scaling"]
    assert {figure.title.split()[0] for figure in section.plots} == {"Weak", "Strong"}
    for figure in section.plots:
        measured, predicted = figure.series
        assert measured.x == predicted.x == (1.0, 2.0, 4.0)
        assert all(
            low <= rate <= high for low, rate, high in zip(predicted.low, predicted.y, predicted.high, strict=True)
        )
        assert measured.y != predicted.y
    assert 'id="scaling"' in page(scaling_study, by="scaling") and 'id="runs"' not in page(scaling_study, by="scaling")


def test_two_runs_stand_side_by_side(two: ReportModel) -> None:
    section = two.sections[0]
    assert section.identity == "beside"
    steps, parts = section.plots
    assert [series.name for series in steps.series] == [run.run_id for run in two.runs]
    assert [series.name for series in parts.series] == ["first", "second"]
    assert section.tables[0].rows


def test_plots_over_time_have_their_place(few: ReportModel) -> None:
    figure = Plot("line", "over time", (Series("a", (1.0, 2.0), (0.0, 1.0)),), Table(("day",), [["x"]]))
    text = page(report_model([RunData(few.results[0])], history=(figure,)))
    assert 'href="#history"' in text and ">over time<" in text


def test_the_runs_of_a_study_are_no_history(study_page: str) -> None:
    assert 'id="study"' in study_page and "istory" not in study_page


def test_two_values_with_an_arrow_stay_on_one_line(text: str) -> None:
    assert "gbs 128\u00a0\u2192\u00a032" in text and "-&gt;" not in text


def test_what_a_log_or_recipe_contains_is_text(few: ReportModel) -> None:
    run = few.runs[0]
    hostile = few.__class__(
        **{**few.__dict__, "runs": (run.__class__(**{**run.__dict__, "reason": "<script>x</script>"}),)}
    )
    assert "<script>" not in page(hostile)


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
    model = report_model([RunData(hostile(report))])
    text = formatted(model, "markdown", one=one)
    assert "<script" not in text and "\x00" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count(" | ") for line in tables} <= {1, len(model.points.titles)} or not one
    assert not [line for line in tables if line.startswith("| cuda_error") and line.count("|") != 3]


def test_no_run_gives_a_page_too() -> None:
    empty = api.report_on([])
    assert "no runs" in page(empty)
    assert (formatted(empty, "terminal"), formatted(empty, "markdown")) == ("no runs\n", "no runs\n")


def test_junit_has_a_case_a_run(report: ReportModel) -> None:
    suite = ElementTree.fromstring(junit(report.results))
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases) == len(report.runs)
    verdicts = [run.judgement for run in report.runs]
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
