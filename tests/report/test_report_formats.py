"""One report in every format: the same points everywhere, and a page that people can read."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchrun import app, paths
from benchrun.comparison.verdict import RunResult
from benchrun.report.figure import Figure, Series, thinned
from benchrun.report.html import page
from benchrun.report.junit import junit
from benchrun.report.model import ReportModel
from benchrun.report.svg import number, svg, ticks
from benchrun.report.table import Table
from benchrun.report.written import written

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LARGEST = 1_500_000 / 76
"""Bytes of the page for each run: a page on 76 runs has at most 1.5 MB."""


@pytest.fixture(scope="module")
def report() -> ReportModel:
    """On every kept run."""
    return app.report_on([app.run_data(run) for run in app.find_runs(paths.MEASURED)])


@pytest.fixture(scope="module")
def few(report: ReportModel) -> ReportModel:
    """On a few kept runs of one recipe."""
    names = [run.run_id for run in report.runs if run.run_id.startswith("llama3.1-8b-")][:6]
    return app.report_on([app.run_data(app.open_run(str(paths.MEASURED / name))) for name in names])


def test_every_format_has_every_point(report: ReportModel) -> None:
    points = len(report.points.rows)
    assert len(written(report, "csv").splitlines()) == 1 + points
    assert len(report.readable.rows) == points
    lines = written(report, "terminal").splitlines()
    assert lines[0].split()[:3] == ["POINT", "LAYOUT", "RUNS"]
    assert [line for line in written(report, "markdown").splitlines() if line.startswith("| llama3.1-8b")]


def test_csv_and_json_identify_each_point(report: ReportModel) -> None:
    records = report.points.records()
    assert {"run_ids", "launched", "image", "identity", "verdict", "layout"} <= records[0].keys()
    ids = [name for record in records for name in record["run_ids"].split()]
    assert sorted(ids) == sorted(run.run_id for run in report.runs)


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


def test_the_page_is_one_file_of_bounded_size_without_script(report: ReportModel) -> None:
    text = page(report)
    assert len(text.encode()) < LARGEST * len(report.runs)
    reader = Reader(text)
    assert (reader.unbalanced, reader.open, reader.addresses) == ([], [], [])
    assert "<script" not in text and "url(" not in text and "@import" not in text


def test_every_figure_has_a_name_and_a_table(report: ReportModel) -> None:
    text = page(report)
    figures = re.findall(r"<figure>.*?</figure>", text, re.S)
    assert len(figures) > 5 * len(report.runs)
    for figure in figures:
        assert re.search(r'<svg[^>]* role="img" aria-labelledby="(\w+)"><title id="\1">[^<]+</title>', figure)
        assert re.search(r"<table[^>]*>.*<td", figure, re.S)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_what_a_log_or_recipe_contains_is_text(few: ReportModel) -> None:
    run = few.runs[0]
    hostile = few.__class__(
        **{**few.__dict__, "runs": (run.__class__(**{**run.__dict__, "reason": "<script>x</script>"}),)}
    )
    assert "<script>" not in page(hostile)


def test_no_run_gives_a_page_too() -> None:
    empty = app.report_on([])
    assert "no runs" in page(empty)
    assert (written(empty, "terminal"), written(empty, "markdown")) == ("no runs\n", "no runs\n")


def test_junit_has_a_case_a_run(report: ReportModel) -> None:
    suite = ElementTree.fromstring(junit(report.results))
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases) == len(report.runs)
    verdicts = [run.judgement for run in report.runs]
    assert int(suite.get("failures")) == verdicts.count("slow")
    passed = [case for case in cases if not {child.tag for child in case} & {"failure", "error", "skipped"}]
    assert len(passed) == verdicts.count("pass")


@pytest.mark.parametrize(
    ("verdict", "ending", "element"),
    [("pass", None, None), ("slow", None, "failure"), ("invalid_run", None, "error"), ("inconclusive", None, "skipped"),
     (None, "out_of_memory", "error"), (None, "completed", "skipped")],
)  # fmt: skip
def test_a_verdict_in_junit(report: ReportModel, verdict: str | None, ending: str | None, element: str | None) -> None:
    first = next(result for result in report.results if result.verdict)
    given = first.verdict.model_copy(update={"verdict": verdict}) if verdict else None
    (case,) = ElementTree.fromstring(junit([RunResult(first.run_id, first.spec, first.metrics, given, ending)]))
    assert [child.tag for child in case if child.tag != "system-out"] == ([element] if element else [])


class TestDrawing:
    @pytest.mark.parametrize(("low", "high"), [(0, 1), (8.11, 8.22), (0, 123456), (-5, 5), (3, 3), (1e-6, 2e-6)])
    def test_ticks_are_few_round_and_inside(self, low: float, high: float) -> None:
        values = ticks(low, high)
        assert len(values) <= 6
        assert all(low - 1e-9 <= value <= high + 1e-9 for value in values)

    @pytest.mark.parametrize(
        ("value", "text"), [(0, "0"), (8.15, "8.15"), (16103.2, "16.1k"), (2.5e6, "2.5M"), (950, "950")]
    )
    def test_numbers_are_short(self, value: float, text: str) -> None:
        assert number(value) == text

    def test_thinning_keeps_ends_and_extremes(self) -> None:
        y = [1.0] * 10_000
        y[4321] = 9.0
        xs, ys = thinned(range(10_000), y, most=50)
        assert len(xs) <= 100
        assert (4321, 9.0) in zip(xs, ys, strict=True)
        assert list(xs) == sorted(xs)

    def test_a_line_lies_inside_its_frame(self) -> None:
        series = (Series("a", (5.0, 1.0, 1.1), (1.0, 2.0, 3.0)),)
        figure = Figure("line", "t", series, Table(("x",), [[1]]), shade=(1.0, 1.5), level=1.05)
        points = re.search(r'points="([^"]+)"', svg(figure, "i"))[1].split(" ")
        numbers = [float(value) for value in points]
        assert all(0 <= x <= 360 for x in numbers[::2]) and all(0 <= y <= 220 for y in numbers[1::2])


MEASURE = """
<script>
const box = e => e.getBoundingClientRect(), faults = [];
const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
  .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126*v[0] + 0.7152*v[1] + 0.0722*v[2] };
const ratio = (a, b) => { const [h, l] = [light(a), light(b)].sort((x, y) => y - x); return (h + 0.05) / (l + 0.05) };
if (document.documentElement.scrollWidth > innerWidth) faults.push('the page is wider than the window');
const paper = getComputedStyle(document.body).backgroundColor;
for (const e of document.querySelectorAll('h1,h2,h3,p,td,th,summary,span,figcaption'))
  if (box(e).width && ratio(getComputedStyle(e).color, paper) < 4.5)
    faults.push('contrast: ' + e.textContent.slice(0, 40));
for (const s of document.querySelectorAll('svg')) {
  const frame = box(s), texts = [...s.querySelectorAll('text')].filter(t => t.textContent);
  if (!frame.width) continue;
  if (texts.length && ratio(getComputedStyle(texts[0]).fill, paper) < 4.5) faults.push('contrast in a figure');
  if (texts.length && box(texts[0]).height < 9) faults.push('small text in ' + s.querySelector('title').textContent);
  for (const t of texts) { const b = box(t);
    if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
      faults.push('cut: ' + t.textContent + ' in ' + s.querySelector('title').textContent) }
  for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
    const a = box(texts[i]), b = box(texts[j]), eps = 1.5;
    if (a.left < b.right - eps && b.left < a.right - eps && a.top < b.bottom - eps - 2 && b.top < a.bottom - eps - 2)
      faults.push('overlap: ' + texts[i].textContent + ' / ' + texts[j].textContent) } }
for (const e of document.querySelectorAll('td,table:not(.cards) th,p,summary,figcaption'))
  if (box(e).right > innerWidth + 1) faults.push('cut: ' + e.textContent.slice(0, 40));
const figures = document.querySelectorAll('svg').length;
document.body.textContent = JSON.stringify({faults, width: innerWidth, figures});
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["report", "few"])
def test_in_a_browser_nothing_overlaps_or_is_cut(
    which: str, width: int, scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    html = page(request.getfixturevalue(which))
    file = tmp_path / "report.html"
    # A frame of the wanted width: a browser's own window has a least width.
    if scheme == "dark":
        html = html.replace("@media (prefers-color-scheme: dark)", "@media all")
    inner = html.replace("</body>", f"{MEASURE}</body>").replace("<details", "<details open")
    (tmp_path / "inner.html").write_text(inner)
    frame = f'<iframe id="f" src="inner.html" style="width:{width}px;height:2000px;border:0"></iframe>'
    script = "<script>f.onload = () => { r.textContent = f.contentDocument.body.textContent }</script>"
    file.write_text(f'{frame}<pre id="r"></pre>{script}')
    measured = in_browser(file)
    assert measured["width"] == width
    assert measured["figures"] > 20
    assert sorted(set(measured["faults"]))[:12] == []


def in_browser(file: Path) -> dict[str, Any]:
    """What the page of ``file`` has measured of its frame."""
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    command = [CHROMIUM, *options, "--window-size=1400,2100", "--virtual-time-budget=20000", file.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="r">(.*?)</pre>', result.stdout, re.S)
    assert match is not None and match[1], result.stderr[-500:]
    document: dict[str, Any] = json.loads(match[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    return document
