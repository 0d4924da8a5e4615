"""The HTML page: one file that people can read, with plots of runs and of several runs together."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from benchrun.capabilities.html.page import page
from benchrun.capabilities.html.section import RunSection, evidence_of, run_section
from benchrun.capabilities.html.sections import sections
from benchrun.judge.verdict import RunResult
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.model import ReportModel, report_model
from benchrun.show.plot import Plot, Series
from benchrun.show.section import Section
from benchrun.show.table import Table

LARGEST = 3_500_000
"""Bytes of a page on all kept runs; on 80 runs, each with all of its plots, it has about as many."""


def section_of(run: RunResult) -> RunSection:
    """The section on a run with all of its plots."""
    return run_section(run, evidence_of(run))


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
    assert all(len(run.plots) > 5 for run in map(section_of, few.results))


def test_every_figure_has_a_name_and_a_table(text: str, report: ReportModel) -> None:
    figures = re.findall(r"<figure[^>]*>.*?</figure>", text, re.S)
    assert len(figures) > 2 * len(report.results)
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
    drawn = {
        run.run_id: [each for each in run.plots if each.kind == "waterfall"] for run in map(section_of, report.results)
    }
    assert {name for name, figures in drawn.items() if figures} == {name for name, step in timed.items() if step}
    for figure in (each for figures in drawn.values() for each in figures):
        step_s = figure.table.rows[-1][1]
        assert sum(figure.series[0].y) == pytest.approx(step_s, rel=1e-3)
        assert [row[0] for row in figure.table.rows[:-1]] == list(figure.labels)


def test_a_curve_is_drawn_beside_its_prediction(scaling_study: ReportModel) -> None:
    (section,) = [each for each in sections(scaling_study) if each.identity == "scaling"]
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
    section = next(sections(two, list(map(evidence_of, two.results))))
    assert section.identity == "beside"
    steps, parts = section.plots
    assert [series.name for series in steps.series] == [run.run_id for run in two.results]
    assert [series.name for series in parts.series] == ["first", "second"]
    assert section.tables[0].rows


def test_an_added_section_has_its_place(few: ReportModel) -> None:
    figure = Plot("line", "over time", (Series("a", (1.0, 2.0), (0.0, 1.0)),), Table(("day",), [["x"]]))
    text = page(few, added=[Section("time", "Over time", "", (figure,))])
    assert 'href="#time"' in text and ">over time<" in text


def test_the_runs_of_a_study_are_no_history(study_page: str) -> None:
    assert 'id="study"' in study_page and "istory" not in study_page


def test_two_values_with_an_arrow_stay_on_one_line(text: str) -> None:
    assert "gbs 128\u00a0\u2192\u00a032" in text and "-&gt;" not in text


def test_what_a_log_or_recipe_contains_is_text(few: ReportModel) -> None:
    first = next(run for run in few.results if run.verdict)
    verdict = first.verdict.model_copy(update={"reason": "<script>x</script>"})
    hostile = report_model([replace(first, verdict=verdict)])
    assert "&lt;script&gt;" in page(hostile)
    assert "<script>" not in page(hostile)
