"""Kept runs are read from one packed file as from a folder."""

import zipfile
from pathlib import Path

import pytest
from selection import representative

from benchrun import paths
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.judge.measured import load_measured
from benchrun.show.table import step_lines
from hatch_build import packed as packed_runs

WITH_STEPS = sorted(path.parent for path in paths.MEASURED.glob("*/steps.jsonl"))
NAMES = sorted(run.name for run in load_measured())[:2]


def packed(target: Path, **changed: str) -> zipfile.Path:
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("README.md", "no run")
        for name in NAMES:
            for file in sorted(path for path in (paths.MEASURED / name).rglob("*") if path.is_file()):
                member = file.relative_to(paths.MEASURED)
                archive.writestr(str(member), changed.get(file.stem, file.read_bytes()))
    return zipfile.Path(target)


def test_an_archive_holds_the_same_runs_as_the_folder(tmp_path: Path) -> None:
    found = load_measured(packed(tmp_path / "measured.zip"))  # type: ignore[arg-type]
    folder = {run.name: run for run in load_measured() if run.name in NAMES}
    assert [run.name for run in found] == list(folder)
    for run in found:
        other = folder[run.name]
        assert (run.spec, run.metrics, run.env, run.ceilings) == (other.spec, other.metrics, other.env, other.ceilings)
        assert run.steps == other.steps
        assert len(run.steps) > 5


def test_a_wheel_carries_every_run_in_one_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = packed_runs(paths.MEASURED)
    assert len(content) < 200_000
    (tmp_path / "measured.zip.xz").write_bytes(content)
    monkeypatch.setattr(paths, "MEASURED", tmp_path / "measured")
    from_file = load_measured(paths.measured.__wrapped__())
    monkeypatch.undo()
    assert [(run.name, run.spec, run.metrics, run.steps) for run in from_file] == [
        (run.name, run.spec, run.metrics, run.steps) for run in load_measured()
    ]


@pytest.mark.parametrize("run", representative(WITH_STEPS), ids=lambda run: run.name)
def test_the_steps_of_a_kept_run_are_those_of_its_log(run: Path) -> None:
    log = parse_log(*sorted(run.glob("*.log.xz")))
    assert (run / "steps.jsonl").read_text().splitlines() == list(step_lines(log.distinct, "jsonl"))


def test_a_damaged_file_of_an_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"metrics\.json: not what benchrun writes"):
        load_measured(packed(tmp_path / "measured.zip", metrics="{}"))  # type: ignore[arg-type]
