"""Paths of the data files: at the top of a checkout, under ``benchrun/_data`` in a
wheel.
"""

import contextlib
import functools
import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
DATAGEN = PACKAGE.parent / "datagen"
DATA = PACKAGE / "_data" if (PACKAGE / "_data").is_dir() else PACKAGE.parent

RECIPES = DATA / "recipes"
MODELS = RECIPES / "models"
CLUSTERS = RECIPES / "clusters"
SUITES = RECIPES / "suites"
STUDIES = RECIPES / "studies"
PLANS = RECIPES / "plans"
TEMPLATES = DATA / "templates"
REFERENCE = DATA / "results" / "reference"
MEASURED = DATA / "results" / "measured"


@functools.cache
def table(module: str, name: str | None = None) -> tuple[dict[str, str], ...]:
    """The rows of the CSV file beside a module, whose ``__file__`` is ``module``, with
    its name or with ``name``.
    """
    import csv  # every command imports this module

    path = Path(module)
    with (path.with_name(name) if name else path.with_suffix(".csv")).open(
        newline="", encoding="utf-8"
    ) as file:
        return tuple(csv.DictReader(file))


def shipped(folder: Path) -> list[str]:
    """The names of the YAML files in one of these folders."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def here(pattern: str) -> list[Path]:
    """Files in the current directory."""
    return list(Path().glob(pattern))


def given(path: Path) -> Path:
    """The absolute form of ``path``, its links kept: a node may reach the same folder,
    and not what a link names here.

    A relative one begins at the shell's own name of the current directory.
    """
    shell = Path(os.environ.get("PWD", ""))
    with contextlib.suppress(OSError):
        if shell.is_absolute() and shell.samefile(Path.cwd()):
            return shell / path
    return path.absolute()


BASELINE = "BENCHRUN_BASELINE"
"""Variable with the baseline of the commands that judge: a folder of runs, a run, or
the id of a published number.
"""


def runs_dir() -> Path:
    """The folder of the runs: ``$BENCHRUN_RESULTS/runs``, or ``results/runs`` in the
    current directory.
    """
    return Path(os.environ.get("BENCHRUN_RESULTS", "results")) / "runs"


def packs_dir() -> Path:
    """The folder of evidence packs, beside that of the runs."""
    return runs_dir().with_name("packs")
