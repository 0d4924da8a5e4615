"""Finding recipes, models, clusters and suites: shipped ones by name, the user's by path."""

from __future__ import annotations

import difflib
from pathlib import Path

from benchrun import paths
from benchrun.errors import UserError, closest


def is_path(name: str) -> bool:
    """Whether ``name`` is the path of a file of the user's own."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def find(name: str, folder: Path, kind: str) -> Path:
    """The file of ``name``: a shipped name or a path. UserError lists the legal names."""
    path = Path(name) if is_path(name) else folder / f"{name}.yaml"
    if path.is_file():
        return path
    if is_path(name):
        raise UserError(f"no such {kind} file: {name}")
    raise UserError(f"no {kind} is called '{name}'", hint=closest(name, names(folder)))


def find_recipe(name: str) -> Path:
    """The file of a recipe. UserError that names the suite, where ``name`` is nearly one's."""
    if not (paths.RECIPES / f"{name}.yaml").is_file():
        suites = difflib.get_close_matches(name, names(paths.SUITES), n=1, cutoff=0.8)
        if suites:
            raise UserError(f"no recipe is called '{name}'", hint=f"there is a suite: benchrun launch {suites[0]}")
    return find(name, paths.RECIPES, "recipe")


def names(folder: Path) -> list[str]:
    """The shipped names in one folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))
