"""The house stays in order: imports go one way, files stay small, what must be quick imports nothing heavy."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "benchrun"
SOURCES = sorted(PACKAGE.rglob("*.py"))
DATAGEN = sorted((ROOT / "datagen").rglob("*.py"))


def room(path: Path) -> str:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if part in ("__init__", "__main__") else part


def imports(path: Path) -> Iterator[Any]:
    """Every absolute import in a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ([f"benchrun.{a.name}" for a in node.names] if node.module == "benchrun" else [node.module])


def test_imports_go_one_way() -> None:
    """The rooms and their order stand in pyproject.toml, section importlinter."""
    lint = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_only_jobs_start_processes() -> None:
    starting = {path for path in SOURCES if {"subprocess", "multiprocessing", "pty"} & set(imports(path))}
    assert {room(path) for path in starting} == {"jobs"}, starting


TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_files_stay_small() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in [*SOURCES, *DATAGEN, *TESTS]}
    assert {path: count for path, count in lines.items() if count > 470} == {}


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    code = f"import sys\nfrom benchrun.cli import main\ntry: main({args})\nexcept SystemExit: pass\n"
    code += "print(sorted({'pydantic', 'yaml', 'jinja2', 'rich', 'pandas', 'torch', 'numpy'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_listing_imports_nothing_heavy() -> None:
    code = "import sys\nfrom benchrun.cli import main\ntry: main(['list', '--json'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'pandas', 'torch', 'numpy', 'rich', 'pydantic'} & set(sys.modules)), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.splitlines()[-1] == "[]"


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by it, and refuses the second; one of another directory is seen only where all are run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_of_the_tests_are_sound_shell() -> None:
    scripts = [str(path) for room in ("slurm", "gpu") for path in (ROOT / "tests" / room).glob("*.sh")]
    result = subprocess.run(["shellcheck", "-x", *scripts], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
