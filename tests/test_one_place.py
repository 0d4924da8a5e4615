"""A fact stands in one place: no framework's name is a literal outside its file, its template, data and tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from benchrun import paths
from benchrun.frameworks.registry import FRAMEWORKS

ROOT = Path(__file__).parent.parent
EXEMPT = {
    # The one list of what is built in.
    "benchrun/extensions.py": set(FRAMEWORKS),
    # Documents of versions that are long out do not change any more.
    "benchrun/runspec/migrate.py": {"hf"},
    # The worker is this framework; its dependencies carry the same name as packages.
    "benchrun/worker/train.py": {"megatron-core"},
    # The workload, which has the name of its one framework.
    "benchrun/runspec/command.py": {"command"},
    # The engine inside a post-training, not what serves.
    "benchrun/runspec/post_training.py": {"vllm"},
    "benchrun/worker/rl/engine.py": {"vllm"},
    "benchrun/show/scaling.py": {"vllm"},
    # The package trl, whose version the log has, and that of its engine.
    "benchrun/worker/rl/train.py": {"trl", "vllm"},
    # The package megatron-core, not the framework.
    "benchrun/site/doctor.py": {"megatron-core"},
}
SOURCES = [
    path
    for folder in (paths.PACKAGE, paths.DATAGEN)
    for path in sorted(folder.rglob("*.py"))
    if not {"frameworks", "dialects"} & {folder.name for folder in path.parents}
]
TEMPLATES = [path for path in sorted(paths.TEMPLATES.rglob("*.j2")) if path.parent.name != "frameworks"]


def literals(path: Path) -> Iterator[str]:
    """Every text constant of a Python file, every quoted word of a template."""
    text = path.read_text()
    if path.suffix == ".j2":
        yield from re.findall(r"[\"']([\w.-]+)[\"']", text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_framework_is_named_outside_its_own_files() -> None:
    for path in [*SOURCES, *TEMPLATES]:
        exempt = EXEMPT.get(str(path.relative_to(ROOT)), set())
        assert set(literals(path)) & set(FRAMEWORKS) <= exempt, path


def test_every_exemption_is_needed() -> None:
    for name, exempt in EXEMPT.items():
        if exempt != set(FRAMEWORKS):
            assert exempt <= set(literals(ROOT / name)), name


def test_every_template_is_of_a_registered_framework() -> None:
    templates = {path.name.removesuffix(".j2") for path in (paths.TEMPLATES / "frameworks").glob("*.j2")}
    named = {name for framework in FRAMEWORKS.values() for name in framework.files}
    named |= {Path(framework.template).name.removesuffix(".j2") for framework in FRAMEWORKS.values()}
    assert templates == named
