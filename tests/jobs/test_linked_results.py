"""A results folder behind a link: Slurm gets the name that the user gave, because a node may lack the link's target."""

import os
from pathlib import Path

import pytest
from test_local import wait

from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import cancel
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.find import open_run
from benchrun.runspec.spec import RunSpec

SBATCH = '#!/bin/bash\nprintf "%s\\n" "$@" >>"$WORDS"\necho 17\n'


def spec(cluster: str, *overrides: str) -> RunSpec:
    return resolve(Request("tiny-llama", "CPU", "fp32", 1, None, cluster, overrides))


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    return tmp_path / "link"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the words that sbatch gets."""
    (tmp_path / "sbatch").write_text(SBATCH, encoding="utf-8")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("WORDS", str(tmp_path / "words"))
    return tmp_path / "words"


def test_sbatch_gets_the_name_that_was_given(linked: Path, words: Path) -> None:
    run = api.start(spec("slurm-cpu"), linked / "runs")
    assert f"--chdir={linked}/runs/{run.run_id}" in words.read_text(encoding="utf-8").splitlines()
    assert open_run(run.run_id, linked / "runs") == run
    assert open_run(str(run.path.resolve()), linked / "runs") == run


def test_a_relative_folder_begins_at_the_shells_own_name(
    linked: Path, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(linked)
    monkeypatch.setenv("PWD", str(linked))
    assert api.start(spec("slurm-cpu"), Path("results/runs")).path.parent == linked / "results/runs"
    monkeypatch.setenv("PWD", "/")  # of another directory
    assert paths.given(Path("results")) == linked.resolve() / "results"


def test_a_local_run_behind_a_link_is_found_and_ended(linked: Path) -> None:
    run = api.start(spec("local", "cluster.python=/bin/true"), linked / "runs")
    assert wait(run).ending is Ending.INCOMPLETE
    (linked / "program").write_text("#!/bin/bash\nsleep 60\n", encoding="utf-8")
    (linked / "program").chmod(0o755)
    run = api.start(spec("local", f"cluster.python={linked}/program"), linked / "runs")
    assert cancel(run)
    assert wait(run).ending is Ending.CANCELLED


@pytest.mark.parametrize("name", ["a%jb", "a\\b"])
def test_a_recipe_whose_name_slurm_would_expand(tmp_path: Path, words: Path, name: str) -> None:
    text = (paths.RECIPES / "tiny-llama.yaml").read_text(encoding="utf-8")
    (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    request = (str(tmp_path / f"{name}.yaml"), "CPU", "fp32", 1, None)
    with pytest.raises(UserError) as error:
        api.start(resolve(Request(*request, "slurm-cpu", ())), tmp_path / "runs")
    assert "rename" in str(error.value.hint)
    assert not words.exists()
    program = api.start(resolve(Request(*request, "local", ("cluster.python=/bin/true",))), tmp_path / "runs")
    assert wait(program).ending is Ending.INCOMPLETE
