"""The HTML page: one file that people can read without a script, with what the script needs."""

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser

import numpy as np
import pytest

from benchrun.capabilities.explain.model import Cause, Explanation
from benchrun.capabilities.history.series import history_of
from benchrun.capabilities.html import page as page_module
from benchrun.capabilities.html.charts import _coded, data_of
from benchrun.capabilities.html.findings import changes_of, changes_table, failures_table, findings, nodes_table
from benchrun.capabilities.html.page import made_now, page
from benchrun.capabilities.html.run import evidence_of, explanation_of, folded, place, section
from benchrun.capabilities.html.sections import sections
from benchrun.capabilities.html.todo import todo
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import ProblemEntry
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.model import ReportModel, report_model
from benchrun.show.plot import Plot, Series
from benchrun.show.section import Section
from benchrun.show.table import Table

OMITTED = {"p", "td", "th", "tr", "dt", "dd", "li", "thead", "tbody"}
"""Elements whose end HTML lets out."""
VOID = {"meta", "br", "line", "rect", "path", "polyline", "circle", "use", "input"}
EACH = 3_000
"""Bytes of a run on a page on 500, which has 1.5 MB."""


class Reader(HTMLParser):
    """Collects what a browser would need and what a person would read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID | OMITTED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | OMITTED and (not self.open or self.open.pop() != tag):
            self.unbalanced.append(tag)


@pytest.fixture(scope="module")
def text(report: ReportModel) -> str:
    """The page of the report."""
    return page(report)


def test_the_page_is_one_file_that_asks_nobody(text: str) -> None:
    reader = Reader(text)
    assert (reader.unbalanced, reader.open) == ([], [])
    places = set(re.findall(r' id="?([\w-]+)', text))
    assert {address.removeprefix("#") for address in reader.addresses} <= places
    styles = "".join(re.findall("(?s)<style>.*?</style>", text))
    assert "url(" not in styles and "@import" not in styles and "<link" not in text and "<img" not in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\(", text)


def test_five_hundred_runs_have_at_most_a_megabyte_and_a_half(
    report: ReportModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "BRIEF", 0)
    monkeypatch.setattr("benchrun.capabilities.html.charts.MANY", 0)
    text = page(report)
    own = len(text.encode()) - 90_000  # the library, the script and the styles
    assert own < EACH * len(report.results)


def test_the_head_says_what_the_page_is_on(few: ReportModel) -> None:
    made = datetime(2026, 11, 28, 9, tzinfo=timezone.utc)
    head = page(few, made=made).partition("<section")[0]
    for fact in ("<dt>runs<dd>6", "<dt>cluster<dd>", "<dt>GPUs<dd>H", "megatron-core", "2026-11-28 09:00 UTC"):
        assert fact in head
    assert page(few) == page(few) != made_now(few)
    assert "<dt>made" not in page(few)


def test_every_run_has_a_row_with_its_ratio_and_a_section(text: str, report: ReportModel) -> None:
    rows = re.findall(r"<tr><td><a href=\"#r(\d+)\">(.*?)</tr>", text)
    assert sorted(int(number) for number, _ in rows) == list(range(len(report.results)))
    for number, cells in rows:
        result = report.results[int(number)]
        ratio = result.verdict.ratio if result.verdict else None
        assert result.judgement.replace("_", " ") in cells
        assert ("<svg class=r>" in cells) == (ratio is not None)
        if ratio:
            assert f"<td>{ratio.value:.3f}<td>{ratio.low:.3f} " in cells
        assert result.run_id in text.partition(f"<details class=run id=s{number}>")[2][:600]


def test_the_slow_runs_stand_first(text: str, report: ReportModel) -> None:
    order = [report.results[int(number)] for number in re.findall(r'<tr><td><a href="#r(\d+)"', text)]
    bad = ["slow" in run.judgement or run.judgement == "invalid_run" for run in order]
    assert bad == sorted(bad, reverse=True)


def test_equal_speed_is_in_the_middle_and_a_far_ratio_on_the_axis() -> None:
    assert place(1.0) == 60
    assert 0 < place(0.1) == place(0.5) < place(0.97) < 60 < place(1.03) < place(2.0) == place(9.0) < 120


def test_the_parts_of_a_step_add_up_to_it(few: ReportModel) -> None:
    for result in few.results:
        known = explanation_of(evidence_of(result))
        assert known
        html = "".join(section(result, "x", 0, known, brief=False))
        seconds = [float(value) for value in re.findall(r"<tr><td>[^<]*<td>([-\d.e]+)<td>", html)]
        assert sum(seconds[:-1]) == pytest.approx(seconds[-1], rel=2e-3)


def test_series_are_what_was_measured(report: ReportModel) -> None:
    drawn = 0
    for result in report.results:
        found = data_of(result, 6)
        json.dumps(found)
        for chart in found["charts"]:
            if chart["x"] != "step":
                continue
            drawn += 1
            assert result.numbers is None or found["step"][1] <= found["step"][0] <= found["step"][2]
            ((_, x, y),) = chart["series"]
            assert len(x) == len(y) and min(np.cumsum(y[1:]) * y[0]) > 0
            assert chart["ends"][0] <= chart["level"] <= chart["ends"][1]
    assert drawn > 5


@pytest.mark.parametrize("values", [[1, 2, 3, 7], [0.5123, 0.5187, 12.25], [3.0], [-1.5, 2.25]])
def test_numbers_are_coded_without_loss(values: list[float]) -> None:
    unit, *steps = _coded(values)
    assert np.cumsum(steps) * unit == pytest.approx(values, abs=max(map(abs, values)) / 1e4)


def result_on(node: str, day: int, step_s: float, like: RunResult) -> RunResult:
    """A run like another one, with a step on a node on a day."""
    numbers = like.metrics
    spread = numbers.step_time_s.model_copy(update={"median": step_s})
    stamp = (datetime(2026, 10, 1) + timedelta(days=day)).strftime("%Y%m%dT%H%M%SZ")
    return replace(
        like,
        measurement=None,
        run_id=f"x-0123abcd-{stamp}-{day:02d}{node[-2:]}",
        metrics=numbers.model_copy(update={"step_time_s": spread}),
        environment={"nodes": [{"host": node}]},
    )


@pytest.fixture
def training(few: ReportModel) -> RunResult:
    return next(run for run in few.results if isinstance(run.spec, TrainingSpec) and run.numbers)


def test_a_slow_node_stands_first_with_its_interval(training: RunResult) -> None:
    runs = []
    for day in range(24):
        node = f"node{day % 4:02d}"
        runs.append(result_on(node, day, (1.06 if node == "node02" else 1.0) + 0.002 * (day % 3), training))
    cause = Cause.model_construct(cause="slow_node", kind="fault", host="node02", seconds=0.06)
    explained = [None] * len(runs)
    explained[2] = Explanation.model_construct(causes=[cause])
    table = nodes_table(findings(runs, explained))
    first, *others = table.records()
    assert (first["node"], first["runs"], first["runs that blame it"]) == ("node02", 6, 1)
    low, high = map(float, first["interval %"].split(" to "))
    assert 4 < low <= float(first["step longer by %"]) <= high < 8
    assert all(float(other["interval %"].split(" to ")[0]) < 0.5 for other in others)


def test_a_node_is_slow_since_the_day_that_its_runs_show(training: RunResult) -> None:
    runs = []
    for day in range(40):
        node = f"node{day % 4:02d}"
        late = 1.03 if day >= 20 else 1.0  # of every node: a change of the point
        slow = 1.07 if node == "node02" and day >= 22 else 1.0
        runs.append(result_on(node, day, late * slow + 0.002 * (day % 3), training))
    lost = [replace(run, metrics=None, ending="failed") for run in runs[1:10:4]]
    first, second, *others = nodes_table(findings([*runs, *lost])).records()
    assert (first["node"], first["since"]) == ("node02", "2026-10-23")
    assert 6 < float(first["interval %"].split(" to ")[0]) <= 7
    assert (second["node"], second["failed runs"]) == ("node01", 3)
    assert not any(other["since"] or other["failed runs"] for other in others)


def test_a_node_that_is_slow_blames_no_other_and_leaves_a_change_as_it_is(training: RunResult) -> None:
    runs = []
    for day in range(48):
        hosts = [f"node{day % 4:02d}", f"node{4 + day % 3:02d}"]
        step_s = 1.0 + 0.001 * (day % 3)
        driver = "570"
        if day >= 24:
            step_s *= 1.033
            driver = "580"
        if "node02" in hosts and day >= 12:
            step_s *= 1.07
        nodes = [{"host": host, "driver": driver} for host in hosts]
        runs.append(replace(result_on(hosts[0], day, step_s, training), environment={"nodes": nodes}))
    found = findings(runs)
    assert [(host, speed.since.day) for host, speed in found.slow.items()] == [("node02", 15)]
    (change,) = found.changes
    assert change.size.percent == pytest.approx(3.3, abs=0.2) and change.with_it == "driver 570 -> 580"
    held_up = {run.run_id for run in runs if run.environment["nodes"][0]["host"] == "node02" and run.launched.day > 14}
    assert not held_up & {run.run_id for run in found.healthy}
    assert {run.environment["nodes"][0]["driver"] for run in found.alike} == {"580"}
    assert found.left_out.count("Left out") == 2 and "node02" in found.on_slow


def test_frameworks_are_compared_with_the_driver_that_both_had(training: RunResult) -> None:
    runs = []
    for day, (name, driver) in enumerate([("nemo2", "570"), ("megatron-core", "570"), ("nemo2", "580")]):
        spec = training.spec.model_copy(update={"framework": name})
        environment = {"nodes": [{"host": "node01", "driver": driver}]}
        runs.append(replace(result_on("node01", day, 1.0, training), spec=spec, environment=environment))
    assert findings(runs).alike == runs[:2]
    assert findings(runs[1:]).alike == runs[1:]


def test_a_node_is_blamed_by_the_lines_of_logs_that_name_it(training: RunResult) -> None:
    problem = ProblemEntry(kind="xid", line=7, detail="Xid 79", host="node03.site.example")
    lost = training.metrics.model_copy(update={"fatal": problem, "problems": (problem,)})
    runs = []
    for day in range(4):
        run = result_on("node01", day, 1.0, training)
        nodes = {"nodes": [{"host": "node01"}, {"host": "node03"}]}
        runs.append(replace(run, environment=nodes, metrics=lost, ending="failed"))
    runs.append(replace(result_on("node02", 9, 1.0, training), ending="timeout"))
    found = findings(runs)
    first = nodes_table(found).records()[0]
    assert (first["node"], first["failed runs"], first["runs that blame it"]) == ("node03", 4, 4)
    xid, late = failures_table(found).records()
    assert (xid["failure"], xid["runs"], xid["nodes"], xid["last seen"]) == ("xid", 4, "node03", "2026-10-04")
    assert "without node03" in xid["what to do"]
    assert (late["failure"], late["nodes"]) == ("timeout", "node02") and "the same" in late["what to do"]


def test_what_to_do_stands_first_the_costliest_first_and_is_shown_below(few: ReportModel) -> None:
    like = next(run for run in few.results if run.verdict and run.verdict.ratio)
    fast = like.verdict.model_copy(update={"verdict": "pass"})
    runs = []
    for day in range(24):
        node = f"node{day % 4:02d}"
        step_s = (1.06 if node == "node02" else 1.0) + 0.002 * (day % 3)
        runs.append(replace(result_on(node, day, step_s, like), verdict=fast))
    assert "Nothing needs doing" in page(report_model(runs[:2]))
    late = replace(result_on("node01", 30, 1.0, like), verdict=fast, ending="timeout")
    entries = todo(findings([*runs, *[late] * 20]))
    assert [entry.evidence for entry in entries] == ["failures", "nodes"]
    assert entries[0].gpu_hours > entries[1].gpu_hours > 0
    assert "node02" in entries[1].text and "timeout" in entries[0].text
    slow = replace(result_on("node01", 31, 1.0, like), verdict=like.verdict.model_copy(update={"verdict": "slow"}))
    assert [entry.command for entry in todo(findings([slow]))] == [f"benchrun explain {slow.run_id}"]
    text = page(report_model([*runs, late, slow]))
    assert text.index('id="todo"') < text.index('id="nodes"')
    for anchor in re.findall(r'\(<a href="#(\w+)">', text):
        assert f'<section id="{anchor}">' in text


def test_a_driver_that_made_points_slower_is_one_thing_to_do(training: RunResult) -> None:
    runs = []
    for day in range(6):
        driver = {"nodes": [{"host": "node01", "driver": "580" if day == 5 else "570"}]}
        for spec in (training.spec, other_batch(training.spec)):
            run = result_on("node01", day, 1.06 if day == 5 else 1.0, training)
            runs.append(replace(run, run_id=f"{run.run_id}{spec.gbs}", spec=spec, environment=driver, verdict=None))
    (entry,) = todo(findings(runs))
    assert "2 points became slower" in entry.text and "driver 570 -> 580" in entry.text
    assert entry.command.startswith("benchrun diff ")


def test_repeats_are_one_point_with_the_interval_of_their_ratios(few: ReportModel) -> None:
    like = next(run for run in few.results if run.verdict and run.verdict.ratio)
    runs = []
    for day, value in enumerate((0.98, 1.0, 1.01, 0.99)):
        ratio = like.verdict.ratio.model_copy(update={"value": value})
        one = result_on("node01", day, 1.0, like)
        runs.append(replace(one, verdict=like.verdict.model_copy(update={"ratio": ratio})))
    (row,) = report_model(runs).points.records()
    assert (row["ratio"], row["low"], row["high"]) == (0.995, 0.98, 1.01)
    assert 'id="points"' not in page(report_model(runs))
    others = [replace(run, run_id=f"{run.run_id}x", spec=other_batch(run.spec)) for run in runs]
    assert "<td class=n>0.995" in page(report_model([*runs, *others])).partition('id="nodes"')[0]


def other_batch(spec: TrainingSpec) -> TrainingSpec:
    return spec.resized(gbs=2 * spec.gbs)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["hgx-07"], "hgx-07"),
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["a10", "a09", "a08", "login"], "a[08-10], login"),
        (["node", "node1", "node2", "node1", "node02"], "node, node[1-2], node02"),
    ],
)
def test_many_nodes_are_written_as_slurm_does(hosts: list[str], text: str) -> None:
    assert folded(hosts) == text


def test_a_change_is_told_from_repeats_with_what_changed(training: RunResult) -> None:
    before = [result_on("node01", day, 1.0 + 0.005 * day, training) for day in range(3)]
    for step_s, found in ((1.012, 0), (1.08, 1), (0.9, 1)):
        runs = [*before, result_on("node02", 30, step_s, training)]
        table = changes_table(changes_of(history_of(runs).series, runs))
        assert len(table.rows) == found
    (row,) = table.records()
    assert (row["after"], row["step longer by %"]) == ("2026-10-31", "-10.4")
    assert "node node01 -> node02" in row["changed with it"]


def test_slower_points_stand_before_faster_ones_with_options_and_clocks(few: ReportModel) -> None:
    training = next(run for run in few.results if run.numbers and run.numbers.telemetry)
    sampled = training.metrics.telemetry
    runs = []
    for number, (step_s, clock) in enumerate(((1.06, 1500.0), (0.7, 1560.0), (0.8, 1560.0), (0.9, 1560.0))):
        spec = training.spec.resized(gbs=2**number * training.spec.gbs)
        lr = spec.model_copy(update={"training": spec.training.model_copy(update={"lr": 0.5})})
        for day, time_s, mhz, each in ((0, 1.0, 1560.0, spec), (9, step_s, clock, lr)):
            run = result_on("node01", day, time_s, training)
            clocked = sampled.model_copy(update={"sm_clock_mhz": mhz})
            metrics = run.metrics.model_copy(update={"telemetry": clocked})
            runs.append(replace(run, run_id=f"{run.run_id}{number}", spec=each, metrics=metrics))
    found = findings(runs)
    first, *faster = changes_table(found.changes).records()
    assert {"clock (MHz) 1560 -> 1500", "training.lr=0.5"} <= set(
        re.split(r"; |options .* -> ", first["changed with it"])
    )
    assert [each["step longer by %"][0] for each in (first, *faster)] == ["+", "-", "-", "-"]
    text = page(report_model(runs)).partition('<section id="changes">')[2].partition("</section>")[0]
    assert "On paper: the first 3." in text and "#changes tbody tr:nth-child(n+4)" in text


def test_a_curve_is_drawn_beside_its_prediction(scaling_study: ReportModel) -> None:
    pytest.importorskip("matplotlib")
    (found,) = [each for each in sections(scaling_study, findings(())) if each.identity == "scaling"]
    assert {figure.title.split()[0] for figure in found.plots} == {"Weak", "Strong"}
    for figure in found.plots:
        measured, predicted, expected = figure.series
        assert measured.x == predicted.x == (1.0, 2.0, 4.0)
        assert expected.x == (8.0, 16.0)
        assert expected.y[0] / measured.y[-1] == pytest.approx(1, abs=0.3)
        ends = zip(predicted.low, predicted.y, predicted.high, strict=True)
        assert all(low <= rate <= high for low, rate, high in ends)
        assert measured.y != predicted.y
    alone = page(scaling_study, by="scaling")
    assert 'id="scaling"' in alone and 'id="runs"' not in alone and "<script" not in alone


def test_two_runs_stand_side_by_side(two: ReportModel) -> None:
    found = next(sections(two, findings(two.results), list(map(evidence_of, two.results))))
    assert found.identity == "beside" and all(run.run_id in found.text for run in two.results)
    assert [table.titles[0] for table in found.tables] == ["part", "differs"]


def test_an_added_section_has_its_place(few: ReportModel) -> None:
    pytest.importorskip("matplotlib")
    figure = Plot("line", "over time", (Series("a", (1.0, 2.0), (0.0, 1.0)),), Table(("day",), [["x"]]))
    text = page(few, added=[Section("time", "Over time", "", (figure,))])
    assert text.index('id="time"') < text.index('id="runs"') and ">over time<" in text


def test_the_runs_of_a_study_are_no_history(study_page: str) -> None:
    assert 'id="study"' in study_page and 'id="changes"' not in study_page


def test_two_values_with_an_arrow_stay_on_one_line(text: str) -> None:
    assert "gbs 128\u00a0\u2192\u00a032" in text and "-&gt;" not in text


def test_what_a_log_or_recipe_contains_is_text(few: ReportModel) -> None:
    first = next(run for run in few.results if run.verdict)
    verdict = first.verdict.model_copy(update={"reason": "<script>x</script>"})
    hostile = replace(first, verdict=verdict, run_id="</script><script>y</script>", environment={})
    text = page(report_model([hostile]))
    assert "&lt;script&gt;x" in text
    assert "<script>x" not in text and "<script>y" not in text
