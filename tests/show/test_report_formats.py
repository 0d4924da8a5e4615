"""One report in every format: the same points everywhere, and a page that people can read."""

import math
import re
from dataclasses import replace
from datetime import datetime, timezone
from xml.etree import ElementTree

import pytest

from benchrun import api
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import ProblemEntry
from benchrun.show.formats import formatted
from benchrun.show.junit import junit
from benchrun.show.model import ReportModel, report_model
from benchrun.show.readable import readable
from benchrun.show.runs import identified, points_by_repeats
from benchrun.show.table import capitals, plain, visible
from benchrun.usecases.scaling import measured_scaling


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
    names = [row[0] for row in report.readable.rows]
    assert len(set(names)) == len(names)
    lines = formatted(report, "markdown").splitlines()
    assert all(any(line.startswith(f"| {name} | ") for line in lines) for name in names)


def test_a_verdict_of_a_point_has_no_word_twice_and_says_what_it_is_against(report: ReportModel) -> None:
    first = next(run for run in report.results if run.verdict and run.verdict.ratio and len(run.verdict.labels) > 1)
    other = first.verdict.model_copy(update={"verdict": "not_comparable", "ratio": None})
    expected = first.verdict.model_copy(update={"verdict": "as_expected"})
    own = first.verdict.ratio.model_copy(update={"reference": "measured:x-20261121T185519Z-777a", "source": "any"})
    predicted = first.verdict.ratio.model_copy(update={"reference": "prediction", "source": "published rows"})
    for ratio, against in ((own, "own run of 2026-11-21"), (predicted, "prediction")):
        runs = [replace(first, verdict=other), replace(first, verdict=expected.model_copy(update={"ratio": ratio}))]
        (row,) = readable(runs).records()
        verdicts, _, limits = row["verdict"].partition(": ")
        assert set(verdicts.split(", ")) == {"1 not comparable", "1 as expected"}
        assert len(set(limits.split(", "))) == len(limits.split(", ")) == len(first.verdict.labels)
        assert row["source"] == against


def test_a_server_has_its_speed_and_is_named_a_proxy(report: ReportModel) -> None:
    rows = [row for row in report.readable.records() if row["point"].startswith("llama3.3-70b-inference")]
    assert all("(proxy: num_layers 4 of 80)" in row["point"] and row["step time s"] is None for row in rows)
    (slowest,) = (row for row in rows if row["served"].startswith("272 output tokens/s/GPU, "))
    assert "182.1 median TTFT ms" in slowest["served"]


def test_runs_of_one_recipe_stand_together_the_oldest_first(report: ReportModel) -> None:
    recipes = [result.spec.recipe for result in report.results]
    assert recipes == sorted(recipes)


def letters(text: str) -> list[str]:
    return sorted(re.sub(r"\s", "", text))


@pytest.mark.parametrize("width", [110, 120, 140, 160, 220])
def test_a_table_fits_the_terminal_and_names_what_it_leaves_out(
    report: ReportModel, scaling_study: ReportModel, width: int
) -> None:
    for model in (report, scaling_study):
        narrow = formatted(model, "terminal", width=width)
        assert max(map(len, narrow.splitlines())) <= width
        shown, _, named = narrow.partition("left out for want of room, in --json: ")
        left_out = " ".join(named.split("\n\n")[0].split()).split(", ")
        table = capitals(model.readable)
        kept = [index for index, title in enumerate(table.titles) if title.lower() not in left_out]
        rest = "".join(f"\n{sentence}\n" for sentence in model.ratios)
        whole = plain(table.only(kept)) + (rest if not named else "")
        assert letters(shown) == letters(whole)
        assert {"RATIO", "LOW", "HIGH", "VERDICT"} <= {table.titles[index] for index in kept}


def test_every_table_has_the_ratio_with_its_reference_and_source(report: ReportModel) -> None:
    columns = ["ratio", "low", "high", "reference", "source"]
    for record in report.points.records():
        known = record["ratio"] is not None
        assert [record[name] is not None for name in columns[3:]] == [known, known]
        assert not known or record["low"] <= record["ratio"] <= (record["high"] or math.inf)
    assert sum(record["ratio"] is not None for record in report.points.records()) >= 3
    for form in ("csv", "markdown", "terminal", "html"):
        text = re.sub(r"<[^>]*>", " ", formatted(report, form)).lower()
        assert set(columns) <= set(re.findall(r"\w+", text)), form


def test_a_terminal_that_is_too_narrow_gets_whole_lines(report: ReportModel) -> None:
    assert formatted(report, "terminal", width=36) == formatted(report, "terminal")


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


SAMPLE = re.compile(r'benchrun_([a-z]\w*)(\{(?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)+\}) (\S+)')


def test_prometheus_has_the_newest_run_of_each_point(report: ReportModel) -> None:
    first = next(run for run in report.results if run.verdict and run.verdict.ratio)
    strange = first.spec.model_copy(update={"recipe": 'a"b\\c\nd'})
    later = replace(first, run_id=first.run_id.replace("-2026", "-2027"), spec=strange)
    *lines, last = formatted(report_model([later, replace(first, spec=strange)]), "prometheus").splitlines()
    assert last == "# EOF"
    values = {}
    for line in lines:
        if not line.startswith("# "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert 'recipe="a\\"b\\\\c\\nd"' in labels
            assert values.setdefault(name, float(value)) == float(value)
    assert lines.count("# TYPE benchrun_step_time_s gauge") == 1
    assert datetime.fromtimestamp(values["launched_timestamp_seconds"], timezone.utc).year == 2027
    assert values["step_time_s"] == first.metrics.step_time_s.median
    assert values["ratio"] == first.verdict.ratio.value
    assert values["exit_code"] == first.verdict.exit_code
    assert len([line for line in lines if not line.startswith("#")]) == len(values)


# No format for readers has control characters, nor those that change the direction of text.

WRONG = "\x1b\x07\u061c\u200e\u200f\u202a\u202e\u2066\u2069"


def test_letters_lines_and_tabs_stay() -> None:
    assert visible(f"a{WRONG}b\t\n\u00a0\u00fc\u05d0\u3042") == "ab\t\n\u00a0\u00fc\u05d0\u3042"


def test_no_format_has_them(two: ReportModel) -> None:
    results = tuple(
        replace(each, run_id=f"{WRONG}{each.run_id}", spec=each.spec.model_copy(update={"recipe": f"a{WRONG}b"}))
        for each in two.results
    )
    model = replace(two, results=results, points=identified(results), readable=readable(results))
    for text in (junit(results), formatted(model, "csv"), formatted(model, "html"), formatted(model, "terminal")):
        assert not set(WRONG) & set(text)


# The repeats of a point have one step time on every part of a report.


def test_points_and_curves_have_the_same_step_time(scaling_study: ReportModel) -> None:
    slower = []
    for each in scaling_study.results:
        assert each.metrics is not None and each.metrics.step_time_s is not None
        rate, step = each.metrics.tokens_per_s_per_gpu, each.metrics.step_time_s
        changed = {
            "step_time_s": step.model_copy(update={"median": 3 * step.median}),
            "tokens_per_s_per_gpu": rate.model_copy(update={"median": (rate.median or 0) / 3}),
        }
        slower.append(replace(each, run_id=f"{each.run_id}-2", metrics=each.metrics.model_copy(update=changed)))
    rows = points_by_repeats([*scaling_study.results, *slower]).records()
    times = {round(row["step_time_s"], 4) for row in rows if row["step_time_s"]}
    points = [point for view in measured_scaling([*scaling_study.results, *slower]) for point in view.measured]
    assert points
    assert {round(point.step_s, 4) for point in points} <= times


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, {"POINT", "RUNS", "RATIO", "LOW", "HIGH", "VERDICT"}),
        (120, {"POINT", "RATIO", "LOW", "HIGH", "TOKENS/S/GPU", "VERDICT", "SOURCE"}),
        (200, {"BATCH", "RATIO", "TOKENS/S/GPU", "MFU", "VERDICT", "REFERENCE", "SOURCE"}),
    ],
)
def test_the_most_useful_columns_survive_in_a_terminal(width: int, columns: set[str], few: ReportModel) -> None:
    text = formatted(few, "terminal", width=width)
    assert columns <= set(text.partition("\n")[0].split())
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_runs_of_one_framework_are_no_empty_table(form: str) -> None:
    assert "nothing to compare" in formatted(report_model([]), form, "framework")
