"""A package of a site's own, installed with pip, adds to benchrun: each part goes from a recipe to a verdict."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent / "extension"
TRAINING = """
description: counting
task: pretrain
model: {num_layers: 4, hidden_size: 64, ffn_hidden_size: 176, num_attention_heads: 4, num_query_groups: 2,
  kv_channels: 16, vocab_size: 256, max_position_embeddings: 128}
seq_length: 128
training: {steps: 30}
frameworks: {abacus: {}}
points: [{gpu: CPU, precision: fp32, num_gpus: 1, mbs: 2, gbs: 8, derived: a test}]
"""
ANSWERING = """
description: answers
workload: answering
task: offline
requests: 100
frameworks: {oracle: {concurrency: 4}}
points: [{gpu: CPU, precision: fp32, num_gpus: 1, source: a page}]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the package."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", str(folder), str(PACKAGE)], check=True)
    return folder


class Site:
    """A shell in a directory of its own, with or without the package."""

    def __init__(self, path: Path, installed: Path | None) -> None:
        self.path = path
        paths = [str(PACKAGE.parent.parent), *([str(installed)] if installed else [])]
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchrun", *argv]
        return subprocess.run(command, cwd=self.path, env=self.env, capture_output=True, text=True)

    def document(self, *argv: str, code: int = 0) -> Any:
        result = self.run(*argv, "--json")
        assert result.returncode == code, result.stderr
        return json.loads(result.stdout)

    def launched(self, recipe: str) -> dict[str, Any]:
        """The one run of ``recipe``, which has ended."""
        (self.path / "mine.yaml").write_text(recipe)
        result = self.run("launch", "./mine.yaml", "--set", f"cluster.python={sys.executable}", "--wait")
        assert "Traceback" not in result.stderr, result.stderr
        (run,) = self.document("status")
        return run


@pytest.fixture
def site(tmp_path: Path, installed: Path) -> Site:
    return Site(tmp_path, installed)


def test_a_framework_with_its_log_goes_to_a_verdict(site: Site) -> None:
    run = site.launched(TRAINING)
    assert run["state"] == "completed", run
    log = site.path / "results/runs" / run["run_id"] / "stdout.log"
    parsed = site.document("parse", str(log))
    assert parsed["framework"] == "abacus"
    assert parsed["num_steps"] == 30
    document = site.document("compare", run["run_id"])
    assert document["verdict"] == "as_expected"  # of the package's own expectation: no prediction knows an abacus
    assert "the maker of the abacus" in document["reason"]
    stored = json.loads(log.with_name("metrics.json").read_text())
    assert stored["step_time_s"]["median"] == pytest.approx(0.0101, rel=0.02)


def test_a_workload_with_results_goes_to_a_verdict(site: Site) -> None:
    run = site.launched(ANSWERING)
    assert run["state"] == "completed", run
    document = site.document("compare", run["run_id"], code=4)
    assert document["verdict"] == "no_reference"


def test_a_verb_is_listed_and_called(site: Site) -> None:
    assert "Greet somebody" in site.run("--help").stdout
    result = site.run("greet", "world")
    assert (result.returncode, result.stdout) == (0, "hello, world\n")


def test_a_report_has_the_format_of_the_package(site: Site) -> None:
    run = site.launched(TRAINING)
    result = site.run("report", run["run_id"], "--format", "lines")
    assert (result.returncode, result.stdout) == (0, f"{run['run_id']}: as_expected\n")


def test_without_the_package_nothing_of_it_is_known(tmp_path: Path) -> None:
    bare = Site(tmp_path, None)
    (tmp_path / "mine.yaml").write_text(TRAINING)
    assert bare.run("greet", "world").returncode == 2
    result = bare.run("render", "./mine.yaml")
    assert result.returncode == 2
    assert "mine.yaml:8" in result.stderr


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path, installed: Path) -> None:
    folder = tmp_path / "broken"
    subprocess.run(["cp", "-r", str(installed), str(folder)], check=True)
    (folder / "site_pack/training.py").write_text("import nothing_of_this_name\n")
    result = Site(tmp_path, folder).run("parse", os.devnull)
    assert result.returncode == 2
    assert "site_pack.training" in result.stderr
    assert "Traceback" not in result.stderr
