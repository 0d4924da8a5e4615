"""Files of recipes, models, clusters and suites, unchecked. A shipped file has a name,
the user's own a path.
"""

import difflib
import re
from collections.abc import Mapping
from copy import copy
from pathlib import Path

from benchrun import paths
from benchrun.errors import UserError, closest
from benchrun.vocabulary import STAMP

from .yamlfile import Document, load


def is_own_file(name: str) -> bool:
    """Whether ``name`` is the path of a file of the user's own."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def find(name: str, folder: Path, kind: str) -> Path:
    """The file of ``name``: a shipped name or a path. UserError lists the legal names."""
    path = Path(name) if is_own_file(name) else folder / f"{name}.yaml"
    if path.is_file():
        return path
    if is_own_file(name):
        raise UserError(f"no such {kind} file: {name}")
    hint = closest(name, paths.shipped(folder))
    if kind == "recipe" and "did you mean" not in hint:
        hint += "; all of them: benchrun list"
    raise UserError(f"no {kind} is called '{name}'", hint=hint)


def recipe_document(name: str) -> tuple[str, Document]:
    """The name of a recipe, and its document with the dimensions of a named model, at
    the lines of that file.
    """
    if re.search(STAMP, name) and not is_own_file(name):
        raise UserError(f"no recipe is called '{name}'", hint=f"of a run: benchrun report {name}")
    if not (paths.RECIPES / f"{name}.yaml").is_file():
        others = (
            ("suite", "launch", paths.SUITES),
            ("study", "study", paths.STUDIES),
            ("plan", "plan", paths.PLANS),
        )
        for kind, verb, folder in others:
            if near := difflib.get_close_matches(name, paths.shipped(folder), n=1, cutoff=0.8):
                raise UserError(
                    f"no recipe is called '{name}'",
                    hint=f"there is a {kind}: benchrun {verb} {near[0]}",
                )
    path = find(name, paths.RECIPES, "recipe")
    document = load(path)
    model_name = document.get("model")
    if not isinstance(model_name, str):
        return path.stem, document
    try:
        model = load(find(model_name, paths.MODELS, "model"))
    except UserError as error:
        raise UserError(
            error.message, hint=error.hint, where=error.where or document.where(("model",))
        ) from None
    document, document.places = copy(document), {**document.places, "model": model.place}
    document["model"] = model
    return path.stem, document


def cluster_document(name: str) -> Document:
    """One cluster profile. Its name is that of its file."""
    path = find(name, paths.CLUSTERS, "cluster")
    document = copy(load(path))
    document.setdefault("name", path.stem)
    _check_hardware(document, path)
    return document


def _check_hardware(site: Document, path: Path) -> None:
    """UserError for a site that gives a listed GPU other peaks or another memory than
    the hardware table.
    """
    own = site.get("hardware")
    if not isinstance(own, Mapping):
        return
    from benchrun import hardware  # pydantic, which a listing does without

    listed = hardware.gpu(str(site.get("gpu")))
    for name, value in own.items() if listed else ():
        size = getattr(listed, name, value)
        if name not in ("arch", "source") and value != size:
            what = f"hardware.{name} is {value}, but {site['gpu']} is listed with {size}"
            raise UserError(
                what,
                where=path,
                hint="leave hardware: out, or give your GPU a name of its own",
            )


def default_cluster(gpu: str) -> str:
    """The shipped profile for a GPU if none is named; the local machine for CPU runs."""
    if gpu == "CPU":
        return "local"
    for name in paths.shipped(paths.CLUSTERS):
        if cluster_document(name)["gpu"] == gpu:
            return name
    hint = "name yours with --cluster FILE; benchrun site init writes one"
    raise UserError(f"no shipped cluster profile has GPUs of type {gpu}", hint=hint)
