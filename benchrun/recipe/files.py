"""Files of recipes, models, clusters and suites, unchecked: shipped ones by name, the user's by path."""

from __future__ import annotations

import difflib
from copy import copy
from pathlib import Path

from benchrun import paths
from benchrun.errors import UserError, closest
from benchrun.recipe.yamlfile import Document, load


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


def names(folder: Path) -> list[str]:
    """The shipped names in one folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def recipe_document(name: str) -> tuple[str, Document]:
    """The name of a recipe, and its document with the dimensions of a named model, at the lines of that file."""
    if not (paths.RECIPES / f"{name}.yaml").is_file():
        suites = difflib.get_close_matches(name, names(paths.SUITES), n=1, cutoff=0.8)
        if suites:
            raise UserError(f"no recipe is called '{name}'", hint=f"there is a suite: benchrun launch {suites[0]}")
    path = find(name, paths.RECIPES, "recipe")
    document = load(path)
    model_name = document.get("model")
    if not isinstance(model_name, str):
        return path.stem, document
    try:
        model = load(find(model_name, paths.MODELS, "model"))
    except UserError as error:
        raise UserError(error.message, hint=error.hint, where=error.where or document.where(("model",))) from None
    document, document.places = copy(document), {**document.places, "model": model.place}
    document["model"] = model
    return path.stem, document


def cluster_document(name: str) -> Document:
    """One cluster profile. Its name is that of its file."""
    path = find(name, paths.CLUSTERS, "cluster")
    document = copy(load(path))
    document.setdefault("name", path.stem)
    return document


def default_cluster(gpu: str) -> str:
    """The shipped profile for a GPU if none is named; the local machine for CPU runs."""
    if gpu == "CPU":
        return "local"
    for name in names(paths.CLUSTERS):
        if cluster_document(name)["gpu"] == gpu:
            return name
    raise UserError(f"no shipped cluster profile has GPUs of type {gpu}", hint="name yours with --cluster FILE")
