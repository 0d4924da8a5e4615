"""The core imports no capability, and works without any; capabilities import each other only where it is allowed."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kept_runs
import pytest
from selection import some

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "benchrun"
CAPABILITIES = PACKAGE / "capabilities"
NAMES = sorted(path.name for path in CAPABILITIES.iterdir() if (path / "__init__.py").is_file())
PREFIX = "benchrun.capabilities"
ALLOWED = {
    ("explain", "hangs"),
    ("explain", "traces"),
    ("studies", "predict"),
    ("from_hf", "predict"),
    ("from_hf", "studies"),
    ("acceptance", "nodes"),
    ("acceptance", "studies"),
    ("html", "explain"),
    ("html", "history"),
}
"""The pairs in which the first capability may import the second; `html` imports what it draws."""


def imported(path: Path) -> Iterator[str]:
    """Every module and name that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def capability_of(name: str) -> str | None:
    """The capability that a module belongs to, ``*`` for the package of all; None for the core."""
    if name != PREFIX and not name.startswith(f"{PREFIX}."):
        return None
    return name.removeprefix(PREFIX).strip(".").partition(".")[0] or "*"


def test_the_core_imports_no_capability() -> None:
    core = [path for path in PACKAGE.rglob("*.py") if CAPABILITIES not in path.parents]
    assert len(core) > 100
    found = [(str(path.relative_to(ROOT)), name) for path in core for name in imported(path) if capability_of(name)]
    assert found == []


def test_capabilities_import_each_other_in_the_allowed_pairs_alone() -> None:
    pairs = set()
    for own in NAMES:
        for path in (CAPABILITIES / own).rglob("*.py"):
            pairs |= {(own, other) for name in imported(path) if (other := capability_of(name)) and other != own}
    assert pairs == ALLOWED


def codes(package: Path, work: Path) -> dict[str, int]:
    """Exit code of each command of the core, with the benchrun in ``package``."""
    run = kept_runs.first("llama2-13b-*")
    log = str(run / "stdout.log.xz")
    point = ("--recipe", "llama2-13b", "--gpu", "H200", "--num-gpus", "4", "--precision", "bf16")
    commands = (
        ("--help",),
        ("list",),
        ("parse", log, "--json"),
        ("compare", log, *point),
        ("report", run.name, "--format", "csv"),
    )
    env = {**os.environ, "PYTHONPATH": str(package)}
    found = {}
    for argv in commands:
        command = [sys.executable, "-m", "benchrun", *argv]
        result = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
        assert "Traceback" not in result.stderr, result.stderr
        found[argv[0]] = result.returncode
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The exit codes with every capability."""
    return codes(ROOT, tmp_path_factory.mktemp("whole"))


@pytest.fixture
def without(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the package that lacks the capability ``request.param``."""
    gone = str(CAPABILITIES / request.param)

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "__pycache__" or str(Path(folder, name)) == gone]

    shutil.copytree(PACKAGE, tmp_path / "benchrun", ignore=left_out)
    for name in ("recipes", "templates", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.mark.parametrize("without", some(NAMES, 2), indirect=True)
def test_the_core_works_without_a_capability(without: Path, whole: dict[str, int]) -> None:
    assert codes(without, without / "work") == whole


@pytest.mark.parametrize(
    ("without", "argv"),
    [
        ("html", ("report", "llama2-13b", "--format", "html")),
        pytest.param("predict", ("predict", "llama3.1-8b"), marks=pytest.mark.thorough),
        pytest.param("explain", ("diff", "llama2-13b", "llama2-13b"), marks=pytest.mark.thorough),
        pytest.param("history", ("report", "llama2-13b", "--history"), marks=pytest.mark.thorough),
    ],
    indirect=["without"],
)
def test_what_a_missing_capability_does_is_refused(
    without: Path, argv: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    env = {**os.environ, "PYTHONPATH": str(without)}
    run = kept_runs.named("llama2-13b-*")[0].name
    words = [run if word == "llama2-13b" else word for word in argv]
    command = [sys.executable, "-m", "benchrun", *words]
    result = subprocess.run(command, cwd=without / "work", env=env, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    missing = request.node.callspec.params["without"]
    assert f"no capability '{missing}'" in result.stderr and "Traceback" not in result.stderr
