"""One's own measurements as references, where verdicts are written, what is kept, and how compare and report end."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.core import Command
from click.testing import CliRunner
from test_measured import finished, spec_of

from benchrun import api
from benchrun.cli.logs import compare
from benchrun.cli.reports import report
from benchrun.judge.measured import load_measured
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.find import open_run
from benchrun.rundir.folder import RunDir
from benchrun.usecases import judgement
from benchrun.vocabulary import Exit

PUBLISHED_S = 12.27
"""Llama 3.1 8B, BF16, on 8 H100."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A results folder of one's own with nothing kept."""
    monkeypatch.setenv("BENCHRUN_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(judgement, "load_measured", lambda: load_measured(tmp_path / "measured"))
    load_measured.cache_clear()
    yield tmp_path
    load_measured.cache_clear()


def call(command: Command, *args: int | Path | str) -> tuple[Exit, str, str]:
    result = CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.stdout, result.stderr


def run_of(here: Path, time_s: float, *, published: bool = False, **otherwise: float) -> RunDir:
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8)) if published else spec_of()
    return finished(here / "results" / "runs", spec, time_s, **otherwise)


def keep(here: Path, run: RunDir) -> RunDir:
    call(compare, run.run_id)
    kept = api.keep(run, here / "measured")
    load_measured.cache_clear()
    return kept


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def documents(*args: Path | str) -> list[dict[str, Any]]:
    found = json.loads(call(compare, *args, "--json")[1])
    return found if isinstance(found, list) else [found]


class TestSelfBaseline:
    """No run is held against itself, whatever its name is."""

    def test_a_run_beside_our_own_measurement_is_marked_in_its_first_line(self, here: Path) -> None:
        keep(here, run_of(here, 10.0))
        slow = run_of(here, 11.0)
        (document,) = documents(slow.run_id)
        assert (document["verdict"], [label["code"] for label in document["labels"]]) == ("slow", ["own_measurement"])
        assert call(compare, slow.run_id)[1].startswith("SLOW (against our own measurement)")

    def test_a_log_copied_out_of_a_kept_run_is_that_run(self, here: Path) -> None:
        kept = keep(here, run_of(here, 10.0))
        for lines in (None, 40):  # whole, and cut
            text = lzma.decompress((kept.path / "stdout.log.xz").read_bytes()).decode()
            copy = here / "copied.log"
            copy.write_text("\n".join(text.splitlines()[:lines]) + "\n" if lines else text)
            (document,) = documents(copy, "--recipe", "llama3.1-8b")
            assert document["verdict"] in ("no_reference", "not_comparable", "invalid_run")
            assert document["checks"] == []

    def test_a_kept_run_under_another_name_is_still_itself(self, here: Path) -> None:
        kept = keep(here, run_of(here, 10.0))
        other = here / "elsewhere" / "another-name"
        other.parent.mkdir()
        kept.path.rename(here / "copy")
        (here / "copy").rename(other)
        keep(here, run_of(here, 10.4))
        load_measured.cache_clear()
        # Only the second kept run is left as a reference, and it is one.
        (document,) = documents(other)
        assert document["checks"][0]["reference"]["value"] == pytest.approx(10.4, rel=0.01)
        second = next((here / "measured").iterdir())
        second.rename(here / "measured" / "renamed")
        load_measured.cache_clear()
        assert documents(here / "measured" / "renamed")[0]["checks"] == []

    def test_kept_runs_judged_together_are_no_references_for_each_other(self, here: Path) -> None:
        spec = spec_of()
        shorter = spec.model_copy(update={"training": spec.training.model_copy(update={"steps": 40})})
        runs = [finished(here / "results" / "runs", each, 10.0 + n / 10) for n, each in enumerate((spec, shorter))]
        kept = [keep(here, run) for run in runs]
        found = documents(*(run.path for run in kept))
        assert len(found) == 2
        assert all(document["checks"] == [] for document in found)


class TestNothingIsWrittenElsewhere:
    """A query writes into one's own runs, in the runs folder, and nowhere else."""

    def test_a_run_outside_the_runs_folder_is_left_as_it_is(self, here: Path) -> None:
        run = finished(here / "colleague", resolve(Request("llama3.1-8b", "H100", "bf16", 8)), PUBLISHED_S)
        before = files(run.path)
        assert call(compare, run.path)[0] == 0
        assert files(run.path) == before
        (run.path / "ending.json").unlink()
        run.append_event("refused", reason="no such partition")
        before = files(run.path)
        assert call(compare, run.path)[0] == 4
        assert call(report, run.path)[0] == 4  # nothing was judged there
        assert files(run.path) == before

    def test_a_link_in_the_runs_folder_is_not_one_s_own_run(self, here: Path) -> None:
        run = finished(here / "colleague", resolve(Request("llama3.1-8b", "H100", "bf16", 8)), PUBLISHED_S)
        (here / "results" / "runs").mkdir(parents=True)
        (here / "results" / "runs" / run.run_id).symlink_to(run.path)
        before = files(run.path)
        assert call(compare, run.run_id)[0] == 0
        assert files(run.path) == before

    def test_another_user_s_run_is_read_only(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run = run_of(here, PUBLISHED_S, published=True)
        monkeypatch.setattr("os.geteuid", lambda: run.path.stat().st_uid + 1)
        assert not open_run(run.run_id).writable

    def test_one_s_own_run_gets_its_verdict(self, here: Path) -> None:
        run = run_of(here, PUBLISHED_S, published=True)
        assert call(compare, run.run_id)[0] == 0
        assert json.loads((run.path / "verdict.json").read_text())["verdict"] == "pass"


class TestWarmup:
    """What was judged is what is kept and shown."""

    def test_the_warm_up_is_stored_and_used_again(self, here: Path) -> None:
        run = run_of(here, PUBLISHED_S, published=True, uneven=0.004)
        call(compare, run.run_id, "--warmup", 17)
        judged = {name: json.loads((run.path / name).read_text()) for name in ("verdict.json", "metrics.json")}
        assert [document["warmup"] for document in judged.values()] == [17, 17]
        kept = api.keep(run, here / "measured")
        assert {name: json.loads((kept.path / name).read_text()) for name in judged} == judged
        assert api.result_of(kept).metrics.model_dump(mode="json") == judged["metrics.json"]
        call(compare, run.run_id)
        assert json.loads((run.path / "metrics.json").read_text())["warmup"] is None


class TestExitCodes:
    """Of several 2 and 3 win, then 1, then 4."""

    def test_compare_and_report_end_alike(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(judgement, "expected_step", lambda spec: None)  # what nothing can be compared with
        fast, slow = (run_of(here, time, published=True) for time in (PUBLISHED_S, 14.5))
        unknown = run_of(here, 10.0)
        runs = [(fast, 0), (slow, 1), (unknown, 4)]
        assert call(report)[0] == 4  # none is judged yet
        for run, code in runs:
            assert [call(command, run.run_id)[0] for command in (compare, report)] == [code, code]
        assert call(report)[0] == 1
        assert call(report, fast.run_id, unknown.run_id)[0] == 4
        assert call(report, fast.run_id, "--json")[0] == 0

    def test_a_run_that_cannot_be_judged_does_not_hide_the_others(self, here: Path) -> None:
        slow = run_of(here, 14.5, published=True)
        broken = run_of(here, 10.0)
        (broken.path / "ceilings.json").write_text('{"no": "ceilings"}')
        code, out, err = call(compare, slow.run_id, broken.run_id, "--json")
        assert (code, [document["verdict"] for document in json.loads(out)]) == (2, ["slow"])
        assert "ceilings.json" in err

    def test_the_report_names_the_limits(self, here: Path) -> None:
        keep(here, run_of(here, 10.0))
        run = run_of(here, 10.1)
        call(compare, run.run_id)
        assert "(against our own measurement)" in call(report, run.run_id)[1]
        (row,) = [row for row in json.loads(call(report, "--json")[1]) if row["runs"]]
        assert "own_measurement" in row["limits"]
