"""What the submitting shell lacks is said before anything is queued or written."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchrun import api
from benchrun.errors import UserError
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec


def spec(*overrides: str, cluster: Any = "slurm-cpu") -> RunSpec:
    return resolve(Request("tiny-llama", "CPU", "fp32", 1, None, cluster, overrides))


@pytest.mark.parametrize("value", [None, ""])
def test_a_secret_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("HF_TOKEN", value)
    run = spec("cluster.secrets=[HF_TOKEN]")
    with pytest.raises(UserError) as error:
        api.start(run, tmp_path / "runs")
    assert "HF_TOKEN" in error.value.message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("runtime", "name"),
    [
        *(
            ("none", "a%jb"),
            ("none", "a\\b"),
            ("none", "a\nb"),
            ("none", "a\u2028b"),
            ("none", "a\udcffb"),
            ("pyxis", "a:b"),
            ("pyxis", "a,b"),
            ("apptainer", "a:b"),
        ),
        *(("singularity", "a,b"), ("charliecloud", "a:b"), ("podman", "a,b"), ("docker", 'a"b')),
    ],
)
def test_a_results_path_that_would_be_misread(tmp_path: Path, runtime: str, name: str) -> None:
    run = spec(f"cluster.container.runtime={runtime}", "cluster.container.image=/x")
    with pytest.raises(UserError) as error:
        api.start(run, tmp_path / name / "runs")
    assert "BENCHRUN_RESULTS" in error.value.hint
    assert not (tmp_path / name).exists()


def test_a_data_path_that_would_be_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHRUN_DATA", f"{tmp_path}/a:b")
    run = spec("data.kind=synthetic", "cluster.container.runtime=charliecloud", "cluster.container.image=/x")
    with pytest.raises(UserError) as error:
        api.start(run, tmp_path / "runs")
    assert "BENCHRUN_DATA" in error.value.hint


def test_a_dry_run_names_the_secrets_that_the_launch_will_need() -> None:
    command = [sys.executable, "-m", "benchrun", "launch", "tiny-llama", "--precision", "fp32", "--num-gpus", "1"]
    command += ["--dry-run", "--set", "cluster.secrets=[HF_TOKEN]"]
    env = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
    without, given = (
        subprocess.run(command, env=env | more, capture_output=True, text=True, check=True)
        for more in ({}, {"HF_TOKEN": "hf_x"})
    )
    assert "HF_TOKEN" in without.stderr
    assert "HF_TOKEN" not in given.stderr
    assert without.stdout == given.stdout


def test_an_option_of_sbatch_in_the_shell_is_not_dropped_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "physics")
    (text,) = api.warnings(spec())
    assert "SBATCH_ACCOUNT" in text and "cluster.account" in text
    assert api.warnings(spec(cluster="local")) == []


def test_a_removed_current_directory_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = 'cd "$1" && rmdir "$1" && exec "$2" -m benchrun status'
    result = subprocess.run(["sh", "-c", command, "sh", gone, sys.executable], capture_output=True, text=True)
    assert result.returncode in (2, 3)
    assert "current directory" in result.stderr
    assert "Traceback" not in result.stderr
