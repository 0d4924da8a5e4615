"""The history of points: which runs are a series, its change points, and what changed with them."""

import csv
import io
import json
import lzma
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import kept_runs
import numpy as np
import pytest
from click.testing import CliRunner

from benchrun import api
from benchrun.capabilities.history.series import History, PointHistory, history_of
from benchrun.capabilities.history.text import history_page, history_runs_table
from benchrun.capabilities.html.page import page
from benchrun.cli.reports import report
from benchrun.judge.verdict import RunResult
from benchrun.rundir.find import launch_time
from benchrun.vocabulary import Exit

NAME = kept_runs.named("llama3.1-8b-2c0cb897-*")[0].name
RUN = api.open_run(NAME)
RESULT = api.result_of(RUN)
START = datetime(2026, 1, 5, tzinfo=timezone.utc)

WITH_PYXIS = RESULT.spec.cluster.model_copy(
    update={"container": RESULT.spec.cluster.container.model_copy(update={"runtime": "pyxis"})}
)


def past(day: int, time_s: float, spec: dict[str, Any] | None = None, **facts: Any) -> RunResult:
    """A run that takes ``time_s`` a step, launched on a day; ``facts`` are those of env.json's only node, or of it."""
    assert RESULT.metrics is not None
    assert RESULT.metrics.step_time_s is not None
    spread = RESULT.metrics.step_time_s.model_copy(update={"median": time_s, "mean": time_s})
    metrics = RESULT.metrics.model_copy(update={"step_time_s": spread})
    stamp = (START + timedelta(days=day)).strftime("%Y%m%dT%H%M%SZ")
    node = {"host": facts.pop("host", "n1"), "driver": facts.pop("driver", "570.1")}
    environment = {"nodes": [node], "worker": {"megatron-core": facts.pop("version", "0.16.1")}, **facts}
    run_spec = RESULT.spec.model_copy(update=spec or {})
    return RunResult(f"run-{stamp}-{day:04x}", run_spec, metrics, None, "completed", environment=environment)


def times(*levels: tuple[float, int]) -> Iterator[tuple[int, float]]:
    """Days and step times with noise of 0.2 %."""
    random, days = np.random.default_rng(1), count()
    return ((next(days), level * random.normal(1, 0.002)) for level, runs in levels for _ in range(runs))


def only(history: History) -> PointHistory:
    (series,) = history.series
    return series


def test_a_change_has_its_date_its_size_and_what_changed_with_it() -> None:
    runs = [past(day, time, driver="570.1" if day < 12 else "575.2") for day, time in times((2.0, 12), (2.2, 9))]
    series = only(history_of(runs[::-1]))
    (change,) = series.changes
    assert change.launched == START + timedelta(days=12)
    assert change.run_id == runs[12].run_id
    assert change.percent == pytest.approx(10, abs=0.5)
    assert [(one.column, one.before, one.after) for one in change.changed] == [("driver", ("570.1",), ("575.2",))]
    assert [(period.runs, round(period.step_time_s, 1)) for period in series.periods] == [(12, 2.0), (9, 2.2)]


@pytest.mark.parametrize(("today", "slower"), [(2.2, True), (2.02, False), (1.8, False)])
def test_one_run_is_held_against_last_months_three_repeats(today: float, slower: bool) -> None:
    history = history_of([past(0, 2.0), past(0, 1.99), past(1, 2.01), past(30, today)])
    newest = only(history).newest
    assert newest is not None
    assert newest.percent == pytest.approx(100 * (today / 2 - 1))
    assert newest.low < newest.percent < newest.high
    assert (newest.low > 0, bool(history.slower)) == (slower, slower)
    assert f"{newest.percent:+.1f} % ({newest.low:+.1f} to {newest.high:+.1f})" in history_page(history, "markdown")


def test_a_single_day_and_a_change_have_no_newest_day() -> None:
    assert only(history_of([past(0, 2.0), past(0, 2.5)])).newest is None
    assert only(history_of([past(day, time) for day, time in times((2.0, 12), (2.2, 9))])).newest is None


@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        ("node", {"host": "n1"}, {"host": "n7"}),
        ("image", *({"spec": {"image": f"a/nemo:{tag}", "cluster": WITH_PYXIS}} for tag in (1, 2))),
        ("version", {"version": "0.16.1"}, {"version": "0.17.0"}),
        ("benchrun", {"commit": "1111111"}, {"commit": "2222222"}),
        ("environment", {"spec": {"env": {"A": "1"}}}, {"spec": {"env": {"A": "2"}}}),
    ],
)
def test_every_column_can_explain_a_change(column: str, before: Any, after: Any) -> None:
    runs = [past(day, time, **(before if day < 10 else after)) for day, time in times((2.0, 10), (1.8, 10))]
    (change,) = only(history_of(runs)).changes
    assert column in [one.column for one in change.changed]
    assert change.percent < 0


def test_nodes_that_change_from_run_to_run_explain_nothing() -> None:
    hosts = [f"n{number}" for number in np.random.default_rng(2).integers(0, 6, 40)]
    runs = [past(day, time, host=hosts[day]) for day, time in times((2.0, 20), (2.3, 20))]
    assert only(history_of(runs)).changes[0].changed == ()


def test_a_change_that_is_seen_but_small_is_not_listed() -> None:
    runs = [past(day, time) for day, time in times((2.0, 40), (2.008, 40))]
    assert only(history_of(runs)).changes == ()
    assert len(only(history_of([past(day, t) for day, t in times((2.0, 20), (2.1, 20), (2.0, 20))])).changes) == 2


def test_points_are_separate_and_images_are_not() -> None:
    assert len(history_of([past(0, 2.0), past(1, 2.0, {"image": "another:1"})]).series) == 1
    other = RESULT.spec.model_copy(update={"gbs": 2 * RESULT.spec.gbs})
    assert len(history_of([past(0, 2.0), past(1, 2.0, {"gbs": other.gbs})]).series) == 2
    cluster = RESULT.spec.cluster.model_copy(update={"name": "other"})
    assert len(history_of([past(0, 2.0), past(1, 2.0, {"cluster": cluster})]).series) == 2


@pytest.mark.parametrize("field", ["gbs", "seq_length", "mbs", "cluster"])
def test_points_with_one_name_say_in_what_they_differ(field: str) -> None:
    value = (
        RESULT.spec.cluster.model_copy(update={"name": "other"})
        if field == "cluster"
        else 2 * getattr(RESULT.spec, field)
    )
    history = history_of([past(0, 2.0), past(1, 2.0, {field: value})])
    first, second = (series.name for series in history.series)
    assert first != second
    for name in (first, second):
        assert f"| {name} | " in history_page(history, "markdown")


def test_the_points_that_became_slower_stand_first_and_are_named() -> None:
    slow = [past(day, time, {"recipe": "z"}) for day, time in ((0, 2.0), (1, 2.2))]
    slower = [past(day, time, {"recipe": "y"}) for day, time in ((0, 2.0), (1, 2.6))]
    history = history_of([past(0, 2.0), past(1, 2.0), *slow, *slower])
    assert [series.recipe.split()[0] for series in history.series[:2]] == ["y", "z"]
    lines = history_page(history, "terminal").splitlines()
    assert [(line.split()[1][0], "30.0 %" in line) for line in lines if line.startswith("SLOWER")] == [
        ("y", True),
        ("z", False),
    ]


def test_runs_are_split_by_a_column() -> None:
    runs = [past(day, 2.0, driver=f"57{day % 2}", host=f"n{day % 3}") for day in range(6)]
    assert [series.split for series in history_of(runs, "driver").series] == ["570", "571"]
    assert [len(series.runs) for series in history_of(runs, "node").series] == [2, 2, 2]
    both = past(7, 2.0, nodes=[{"host": "a", "driver": "1"}, {"host": "b", "driver": "1"}])
    assert [series.split for series in history_of([both], "node").series] == ["a", "b"]


def test_runs_without_a_number_are_left_out() -> None:
    good = past(0, 2.0)
    failed = replace(past(1, 2.0), run_id="failed", ending="failed")
    timeless = replace(past(2, 2.0), run_id="golden")
    profiled = past(3, 2.0, {"profile": RESULT.spec.profile.model_copy(update={"steps": 3})})
    history = history_of([good, failed, timeless, profiled])
    assert set(history.left_out) >= {"failed", "golden"}
    assert len(only(history_of([replace(timeless, created=START)])).runs) == 1
    assert launch_time("golden") is None


def test_damaged_environments_have_no_facts() -> None:
    for environment in (
        {},
        {"nodes": None, "worker": []},
        {"nodes": ["x"], "worker": None},
        {"nodes": [{"gpus": None}]},
    ):
        (run,) = only(history_of([replace(past(0, 2.0), environment=environment)])).runs
        assert (run.facts["node"], run.facts["version"]) == ((), ())


@pytest.fixture(scope="module")
def changed() -> History:
    runs = [past(day, time, driver="570.1" if day < 12 else "575.2") for day, time in times((2.0, 12), (2.2, 9))]
    return history_of([*runs, past(0, 5.0, {"gbs": 2 * RESULT.spec.gbs})])


def test_every_format_has_the_date_the_run_and_the_cause(changed: History) -> None:
    text, markdown, rows = (history_page(changed, form) for form in ("terminal", "markdown", "csv"))
    for form in (text, markdown):
        assert re.search(r"2026-01-17: \d+\.\d % slower since run-20260117T\S+ .*driver 570.1 -> 575.2", form)
    assert text.count("2026-01-17") >= 2  # in the table of points too
    assert len(rows.splitlines()) == 1 + 22
    table = history_runs_table(changed)
    firsts = [row for row in table.records() if row["change_percent"] is not None]
    assert [(row["driver"], row["changed"], row["period"]) for row in firsts] == [("575.2", "driver", 2)]
    assert history_page(history_of([]), "terminal") == "no runs\n"


def test_the_json_reads_back(changed: History) -> None:
    assert History.model_validate_json(json.dumps(changed.model_dump(mode="json"))) == changed


def test_the_html_report_has_the_history() -> None:
    runs = [api.run_data(RUN)]
    for day, time in times((2.0, 10), (2.2, 10)):
        runs.append(past(day, time, driver="570.1" if day < 10 else "575.2"))
    html = page(api.report_on(runs))
    changes = html.partition('id="changes"')[2].partition("</section>")[0]
    assert "<td>llama3.1-8b" in changes and "<td class=n>+9.9" in changes
    assert "driver 570.1\u00a0\u2192\u00a0575.2" in changes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve runs on as many days; the last six are those of another driver and 20 % slower."""
    log = RUN.path / "stdout.log.xz"
    text = lzma.decompress(log.read_bytes()).decode()
    for day in range(12):
        name = f"{NAME.rsplit('-', 2)[0]}-202601{10 + day}T000000Z-00{day:02d}"
        shutil.copytree(RUN.path, tmp_path / "runs" / name)
        run = tmp_path / "runs" / name
        slower = 1.2 if day >= 6 else 1.0
        (run / "stdout.log.xz").unlink()
        scaled = re.sub(
            r"(elapsed time per iteration \(ms\): )([\d.]+)",
            lambda match, factor=slower * (1 + day / 5000): f"{match[1]}{float(match[2]) * factor:.1f}",
            text,
        )
        (run / "stdout.log").write_text(scaled)
        environment = json.loads((run / "env.json").read_text())
        environment["nodes"][0]["driver"] = "570.1" if day < 6 else "575.2"
        (run / "env.json").write_text(json.dumps(environment))
    return tmp_path / "runs"


def call(*args: Path | str) -> tuple[Exit, str, str]:
    result = CliRunner().invoke(report, [str(arg) for arg in args], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.stdout, result.stderr


def test_the_command_reads_a_folder_of_runs(folder: Path, tmp_path: Path) -> None:
    code, out, _ = call(folder, "--history", "--json")
    history = History.model_validate_json(out)
    (change,) = only(history).changes
    assert (code, round(change.percent), change.changed[0].column) == (Exit.SLOW, 20, "driver")
    assert call(folder, "--history", "--by", "driver")[0] is Exit.OK  # no change within a driver
    assert call(folder, "--history", "--output", tmp_path / "h.csv")[1] == ""
    assert len((tmp_path / "h.csv").read_text().splitlines()) == 13
    (row,) = csv.DictReader(io.StringIO(call(folder, "--format", "csv")[1]))  # without --history: one point
    assert row["runs"] == "6", "of the newest driver"


@pytest.mark.parametrize(
    "args",
    [
        ("--by", "driver"),
        ("--history", "--plot", "h.png"),
        ("--history", "--format", "junit"),
        ("--history", "--by", "node", "--format", "html"),
    ],
)
def test_what_a_history_cannot_be_is_refused(args: tuple[str, ...]) -> None:
    result = CliRunner().invoke(report, [NAME, *args], standalone_mode=False)
    assert getattr(result.exception, "exit_code", None) == Exit.USER


@pytest.mark.parametrize("nodes", [3, "n1", ["n1"], [{"host": "n1", "gpus": 3}]])
def test_damaged_nodes_leave_the_run_in_its_history(nodes: object) -> None:
    run = replace(past(0, 1.0), environment={"worker": ["torch"], "nodes": nodes})
    assert only(history_of([run])).runs[0].facts["version"] == ()


def test_a_name_with_digits_that_are_no_date_has_no_time() -> None:
    assert launch_time("mine-20261399T996099Z") is None
