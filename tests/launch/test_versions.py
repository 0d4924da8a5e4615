"""Without a container, a node says which versions the framework's Python has; env.json and the report show them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchrun import paths
from benchrun.launch.keep import public_env
from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request
from benchrun.render import render
from benchrun.spec.artifacts import trained_with


def probed(folder: Path, *python: str, path: str = "") -> dict[str, object]:
    command = ["bash", str(paths.TEMPLATES / "probe.sh"), *python]
    subprocess.run(command, cwd=folder, check=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path})
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
