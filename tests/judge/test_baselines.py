"""Baselines that a user names: a run, a folder of runs, a kept run, the id of a published number."""

import csv
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import kept_runs
import pytest
import test_own_runs
from test_measured import finished, spec_of
from test_own_runs import call, documents, files, run_of

from benchrun import api, paths
from benchrun.capabilities.explain.verbs import explain
from benchrun.cli.logs import compare
from benchrun.cli.reports import report
from benchrun.errors import UserError
from benchrun.rundir.find import open_run
from benchrun.rundir.folder import RunDir
from benchrun.usecases import judgement
from benchrun.usecases.baselines import baseline_run
from benchrun.vocabulary import Exit

here = test_own_runs.here
KEPT = [run.name for run in kept_runs.named()]


@pytest.fixture(autouse=True)
def nothing_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paths.BASELINE, raising=False)


def labels(document: dict[str, Any]) -> list[str]:
    return [label["code"] for label in document["labels"]]


def older(here: Path, *times: float) -> list[RunDir]:
    return [finished(here / "golden", spec_of(), time) for time in times]


NAMES: dict[str, Callable[[RunDir], Path | str]] = {
    "folder": lambda run: run.path.parent,
    "directory": lambda run: run.path,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_run_is_judged_against_what_the_user_names(here: Path, name: Callable[[RunDir], Path | str]) -> None:
    (base,), slow, fast = older(here, 10.0), run_of(here, 11.0), run_of(here, 10.1)
    (document,) = documents(slow.run_id, "--baseline", name(base))
    assert (document["verdict"], labels(document)) == ("slow", ["baseline"])
    assert document["checks"][0]["reference"]["id"] == base.run_id
    assert call(compare, fast.run_id, "--baseline", name(base))[0] is Exit.OK


def test_the_id_of_a_run_in_the_results_folder(here: Path) -> None:
    base, slow = run_of(here, 10.0), run_of(here, 11.0)
    for option in ("--baseline", "--against", "--reference"):
        assert documents(slow.run_id, option, base.run_id)[0]["verdict"] == "slow"


def test_repeats_in_a_folder_count_by_their_median(here: Path) -> None:
    older(here, 9.0, 10.0, 30.0)
    check = documents(run_of(here, 10.2).run_id, "--baseline", here / "golden")[0]["checks"][0]
    assert check["reference"]["value"] == pytest.approx(10.0, rel=0.01)


def test_the_variable_names_it_and_the_option_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(here, 10.0)
    base, run = finished(here / "other", spec_of(), 20.0), run_of(here, 11.0)
    monkeypatch.setenv(paths.BASELINE, str(here / "golden"))
    assert documents(run.run_id)[0]["verdict"] == "slow"
    assert documents(run.run_id, "--baseline", base.path)[0]["verdict"] == "faster_than_expected"
    monkeypatch.setenv(paths.BASELINE, "")
    assert "baseline" not in labels(documents(run.run_id)[0])


def test_a_broken_or_unfinished_run_is_no_baseline(here: Path) -> None:
    failed, cut = older(here, 10.0, 10.0)
    failed.write_json("ending.json", {"schema_version": 1, "ending": "failed", "evidence": [], "exit_code": 1})
    (cut.path / "ending.json").unlink()
    log = cut.path / "stdout.log"
    log.write_text("\n".join(log.read_text().splitlines()[:20]) + "\n")
    (document,) = documents(run_of(here, 11.0).run_id, "--baseline", here / "golden")
    assert (document["verdict"], document["checks"]) == ("no_reference", [])


def test_a_run_is_no_baseline_of_itself_nor_is_a_copy_of_it(here: Path) -> None:
    run = run_of(here, 10.0)
    for name in (run.run_id, run.path, run.path.parent):
        assert documents(run.run_id, "--baseline", name)[0]["verdict"] == "no_reference"
    (here / "copies").mkdir()
    run.path.rename(here / "copies" / "golden")
    again = finished(here / "results" / "runs", spec_of(), 10.0)
    (again.path / "stdout.log").write_bytes((here / "copies" / "golden" / "stdout.log").read_bytes())
    assert documents(again.run_id, "--baseline", here / "copies")[0]["checks"] == []


def test_other_conditions_are_named(here: Path) -> None:
    finished(here / "golden", spec_of(gpus=2), 10.0)
    (document,) = documents(run_of(here, 10.0).run_id, "--baseline", here / "golden")
    assert document["verdict"] == "not_comparable"
    assert "num_gpus" in {difference["key"] for difference in document["differs"]}


def test_what_is_no_baseline_is_refused(here: Path) -> None:
    run, log = run_of(here, 10.0), here / "a.log"
    (here / "empty").mkdir()
    log.write_text("no run\n")
    for name in ("nonsense", here / "empty", log, "llama3.1-8b:1"):
        assert call(compare, run.run_id, "--baseline", name)[0] is Exit.USER


def test_nothing_is_written_into_the_baseline(here: Path) -> None:
    (base,) = older(here, 10.0)
    before = files(here / "golden")
    call(compare, run_of(here, 11.0).run_id, "--baseline", base.path)
    assert files(here / "golden") == before


def test_a_log_is_judged_against_a_folder(here: Path) -> None:
    older(here, 10.0)
    log = run_of(here, 11.0).path / "stdout.log"
    (document,) = documents(log, "--recipe", "llama3.1-8b", "--baseline", here / "golden")
    assert (document["verdict"], labels(document)) == ("slow", ["baseline"])


def test_report_judges_anew_and_stores_nothing(here: Path) -> None:
    older(here, 10.0)
    runs = [run_of(here, 11.0), run_of(here, 11.2)]
    before = files(here / "results")
    code, out, _ = call(report, "--baseline", here / "golden", "--format", "csv")
    assert code is Exit.SLOW
    (row,) = csv.DictReader(out.splitlines())
    assert (row["verdict"], row["limits"]) == ("slow", "baseline")
    assert files(here / "results") == before
    assert {run.run_id for run in runs} == set(row["run_ids"].split())


def test_explain_takes_the_newest_run_of_a_folder_under_the_same_conditions(here: Path) -> None:
    finished(here / "golden", spec_of(gpus=2), 10.0)
    base, run = older(here, 9.0)[0], run_of(here, 10.0)
    assert baseline_run(str(here / "golden"), run) == base
    assert call(explain, run.run_id, "--against", here / "golden")[1]
    with pytest.raises(UserError, match="no measured run"):
        baseline_run(str(here / "results" / "runs"), run)


def test_ids_of_kept_runs_are_accepted_everywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEPT[0], f"measured:{KEPT[0]}"):
        assert open_run(name).path == kept_runs.folder(KEPT[0])
    pair = next(
        (a, b)
        for a, b in pairwise(KEPT)
        if a.rsplit("-", 2)[0] == b.rsplit("-", 2)[0] and api.result_of(open_run(b)).numbers
    )
    monkeypatch.setattr(judgement, "load_measured", lambda: ())
    document = documents(pair[0], "--baseline", f"measured:{pair[1]}")[0]
    assert document["checks"][0]["reference"]["id"] == pair[1]
