"""Without a container, a node says which versions the framework's Python has; env.json and the report show them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchrun import paths
from benchrun.judge.measured import MeasuredRun
from benchrun.measure.model import Metrics
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.rundir.artifacts import trained_with
from benchrun.runspec.spec import TrainingSpec
from benchrun.usecases.keep import public_env


def probed(folder: Path, *python: str, path: str = "", programs: str = "/usr/bin:/bin") -> dict[str, object]:
    command = ["bash", str(paths.TEMPLATES / "probe.sh"), *python]
    subprocess.run(command, cwd=folder, check=True, env={"PATH": programs, "PYTHONPATH": path})
    (file,) = (folder / "probe").glob("*.json")
    node: dict[str, object] = json.loads(file.read_text())
    return node


def test_a_source_tree_on_the_path_states_its_own_version(tmp_path: Path) -> None:
    tree = tmp_path / "core" / "megatron" / "core"
    tree.mkdir(parents=True)
    (tree / "__init__.py").write_text("raise SystemExit('the probe imports nothing')\n")
    (tree / "package_info.py").write_text("__version__ = '0.13.0'\n")
    node = probed(tmp_path, sys.executable, path=str(tmp_path / "core"))
    assert trained_with({"worker": None, "nodes": [node]})["megatron-core"] == "0.13.0"


@pytest.mark.parametrize(("python", "versions"), [((), None), (("/none/python",), {})])
def test_a_node_without_that_python_is_described_all_the_same(
    tmp_path: Path, python: tuple[str, ...], versions: object
) -> None:
    node = probed(tmp_path, *python)
    assert node["cpus"] and node.get("versions") == versions
    assert trained_with({"worker": None, "nodes": [node]}) == {}


STATED = {"core/__init__.py": "", "core/package_info.py": "__version__ = '0.13.0'"}
"""A source tree of megatron-core, in the folder megatron."""


@pytest.mark.parametrize(
    "odd",
    [
        {"../sitecustomize.py": "print('welcome', end='')"},
        {"__init__.py": "print('welcome')"},
        {"../nemo/__init__.py": "", "../nemo/package_info.py": "print('{')\nraise SystemExit(1)"},
        {"../nemo/__init__.py": "", "../nemo/package_info.py": "__version__ = object()"},
        {"../nemo/__init__.py": "", "../nemo/package_info.py": "__version__ = '2.4\\n\"'"},
        {"../nemo/__init__.py": "", "../nemo/package_info.py": "__version__ = (2, float('nan'))"},
    ],
)
def test_what_is_imported_to_find_a_version_spoils_no_other(tmp_path: Path, odd: dict[str, str]) -> None:
    for name, text in {**STATED, **odd}.items():
        file = tmp_path / "odd" / "megatron" / name
        (tmp_path / "odd" / "megatron").mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    versions = probed(tmp_path, sys.executable, path=str(tmp_path / "odd"))["versions"]
    assert isinstance(versions, dict)
    assert versions["megatron-core"] == "0.13.0" and "nemo-toolkit" not in versions


@pytest.mark.parametrize("does", ["exec sleep 60", "echo '{\"torch'", "echo 1; exit 1", ":"])
def test_a_python_that_hangs_or_is_none_spoils_no_description(tmp_path: Path, does: str) -> None:
    (tmp_path / "python").write_text(f"#!/bin/bash\n{does}\n")
    limit = '#!/bin/bash\nexec /usr/bin/timeout -k 1 1 "${@:4}"\n'  # in place of a minute
    (tmp_path / "timeout").write_text(limit)
    for name in ("python", "timeout"):
        (tmp_path / name).chmod(0o755)
    programs = f"{tmp_path}:/usr/bin:/bin"
    assert probed(tmp_path, str(tmp_path / "python"), programs=programs)["versions"] == {}


@pytest.mark.parametrize("nodes", [None, 3, "n1", {"host": "n1"}, ["n1", None], [{"gpus": 3}], [{"gpus": ["H100"]}]])
def test_a_damaged_environment_has_no_versions_and_is_no_error(nodes: object) -> None:
    env = {"worker": ["torch"], "nodes": nodes, "image": 3}
    assert trained_with(env) == {}
    assert public_env(env)["worker"] is None
    spec = resolve(Request("llama3.1-8b", "H100", "bf16", 8))
    assert isinstance(spec, TrainingSpec)
    assert MeasuredRun("x", spec, Metrics.model_construct(), env, None, Path()).machine == "H100"


def test_the_first_node_that_knows_its_versions_counts() -> None:
    nodes = [{"host": "a", "error": "damaged"}, {"host": "b", "versions": {"torch": "2.9.1"}}]
    assert trained_with({"worker": None, "nodes": nodes}) == {"torch": "2.9.1"}


def test_the_worker_knows_its_versions_better(tmp_path: Path) -> None:
    env = {"worker": {"torch": "2.11.0"}, "nodes": [{"versions": {"torch": "2.9.1"}}]}
    assert trained_with(env) == {"torch": "2.11.0"}


@pytest.mark.parametrize(("framework", "asks"), [("megatron-bridge", True), ("nemo2", True), ("megatron-core", False)])
def test_other_frameworks_are_asked_where_no_image_tells(framework: str, asks: bool) -> None:
    bare = ("cluster.container.runtime=none", "cluster.python=/site/python")
    script = render(resolve(Request("llama3.1-8b", "H100", "bf16", 8, framework, overrides=bare)))["job.sh"]
    assert ("bash probe.sh /site/python ||" in script) is asks
    contained = render(resolve(Request("llama3.1-8b", "H100", "bf16", 8, framework)))["job.sh"]
    assert "bash probe.sh ||" in contained


def test_a_kept_run_has_the_versions_and_nothing_that_is_none() -> None:
    node = {"host": "a", "gpus": [], "versions": {"nemo-toolkit": "2.4.0", "torch": "of Jane"}}
    assert public_env({"worker": None, "nodes": [node]})["nodes"][0]["versions"] == {"nemo-toolkit": "2.4.0"}
