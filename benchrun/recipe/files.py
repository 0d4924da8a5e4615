"""Files of recipes, models, clusters and suites, unchecked, and the rows of ``benchrun list``.

A shipped file has a name, the user's own a path. Checking thousands of points would make a listing slow.
"""

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import product
from pathlib import Path
from typing import Any

from benchrun import paths
from benchrun.errors import UserError, closest
from benchrun.recipe.yamlfile import Document, load
from benchrun.vocabulary import (
    ABSENT,
    DEGREES,
    HARD,
    SETTINGS,
    STAMP,
    Reduced,
    data_parallel,
    dimensions,
    flat,
    reductions,
)

COLUMNS = (
    *("recipe", "task", "framework", "gpu", "precision", "num_gpus", "proxy", "seq_length", "mbs", "gbs", *DEGREES),
    *("dp", "image"),
)
"""Keys of a row, without those that only count its references."""


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
    raise UserError(f"no {kind} is called '{name}'", hint=closest(name, paths.shipped(folder)))


def recipe_document(name: str) -> tuple[str, Document]:
    """The name of a recipe, and its document with the dimensions of a named model, at the lines of that file."""
    if re.search(STAMP, name) and not is_own_file(name):
        raise UserError(f"no recipe is called '{name}'", hint=f"of a run: benchrun report {name}")
    if not (paths.RECIPES / f"{name}.yaml").is_file():
        others = (("suite", "launch", paths.SUITES), ("study", "study", paths.STUDIES), ("plan", "plan", paths.PLANS))
        for kind, verb, folder in others:
            if near := difflib.get_close_matches(name, paths.shipped(folder), n=1, cutoff=0.8):
                raise UserError(f"no recipe is called '{name}'", hint=f"there is a {kind}: benchrun {verb} {near[0]}")
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
    _check_hardware(document, path)
    return document


def _check_hardware(site: Document, path: Path) -> None:
    """UserError for a site that gives a listed GPU other peaks or another memory than the hardware table."""
    own = site.get("hardware")
    if not isinstance(own, Mapping):
        return
    from benchrun import hardware  # pydantic, which a listing does without

    listed = hardware.gpu(str(site.get("gpu")))
    for name, value in own.items() if listed else ():
        size = getattr(listed, name, value)
        if name not in ("arch", "source") and value != size:
            what = f"hardware.{name} is {value}, but {site['gpu']} is listed with {size}"
            raise UserError(what, where=str(path), hint="leave hardware: out, or give your GPU a name of its own")


def default_cluster(gpu: str) -> str:
    """The shipped profile for a GPU if none is named; the local machine for CPU runs."""
    if gpu == "CPU":
        return "local"
    for name in paths.shipped(paths.CLUSTERS):
        if cluster_document(name)["gpu"] == gpu:
            return name
    hint = "name yours with --cluster FILE; benchrun site init writes one"
    raise UserError(f"no shipped cluster profile has GPUs of type {gpu}", hint=hint)


def listed(recipe_name: str) -> Iterator[dict[str, Any]]:
    """One row per point of a shipped recipe, in its order, with the values of `resolve_point`."""
    return point_rows(*recipe_document(recipe_name))


def point_rows(name: str, recipe: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The same of a document whose values have the types that they are meant to have."""
    workload = recipe.get("workload", "training")
    if workload != "training":
        yield from (_listed_rollouts if workload == "post-training" else _listed_settings)(name, recipe)
        return
    model = recipe["model"]
    for group, _, common in _each_point(name, recipe):
        reduced, num_gpus = _reduced(model, group), common["num_gpus"]
        degrees = {degree: group.get("layout", {}).get(degree, 1) for degree in DEGREES}
        yield {
            **common,
            "num_layers": group.get("num_layers") or model["num_layers"],
            **_proxy(reduced),
            "settings": "",
            "seq_length": group.get("seq_length") or recipe["seq_length"],
            "mbs": group["mbs"],
            "gbs": group.get("gbs") or int(group["gbs_per_gpu"] * num_gpus),
            **degrees,
            "dp": _dp(num_gpus, degrees),
            "scales": _scales(group),
        }


def _dp(num_gpus: int, degrees: Mapping[str, int]) -> int:
    return data_parallel(num_gpus, degrees["tp"] * degrees["pp"] * degrees["cp"])


def _scales(group: Mapping[str, Any]) -> bool:
    """Whether a group also holds for more GPUs than it lists, as in the checked recipe."""
    whole = _list(group["num_gpus"]) == [group.get("layout", {}).get("fsdp", 1)]
    return "gbs_per_gpu" in group and not group.get("num_layers") and not whole


def _each_point(
    name: str, recipe: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """For each point its group, the recipe's entry of its framework, and the values that every workload has."""
    for group in recipe["points"]:
        frameworks = group.get("framework") or list(recipe["frameworks"])
        keys = map(_list, (group["gpu"], group["precision"], frameworks, group["num_gpus"]))
        for gpu, precision, framework, num_gpus in product(*keys):
            entry = recipe["frameworks"][framework] or {}
            common = {
                **{"recipe": name, "task": recipe["task"], "framework": framework, "gpu": gpu, "precision": precision},
                "num_gpus": num_gpus,
                "image": _site_image(gpu, framework, entry.get("image")) or entry.get("image"),
            }
            yield group, entry, common


def _proxy(reduced: tuple[Reduced, ...]) -> dict[str, Any]:
    """Whether a model is a proxy, and what it has less of besides layers."""
    return {"proxy": bool(reduced), "dimensions": dimensions(reduced)}


def _listed_rollouts(name: str, recipe: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a post-training: the GPUs of generation and critic are no part of its layout."""
    for group, entry, common in _each_point(name, recipe):
        inputs = {**recipe, **entry, **group}
        for key in ("generation", "layout"):
            inputs[key] = {**recipe.get(key, {}), **entry.get(key, {}), **group.get(key, {})}
        degrees = {degree: inputs["layout"].get(degree, 1) for degree in DEGREES}
        beside = inputs.get("critic", {}).get("num_gpus", 0) + inputs["generation"].get("num_gpus", 0)
        yield {
            **dict.fromkeys((*HARD, *COLUMNS)),
            **common,
            **_proxy(()),
            **{"mbs": inputs.get("mbs", 1), "gbs": inputs["gbs"], "settings": SETTINGS["post-training"](inputs)},
            **degrees,
            "dp": _dp(common["num_gpus"] - beside, degrees),
        }


def _listed_settings(name: str, recipe: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of another workload: conditions that only trainings have are None, its own are in ``settings``."""
    for group, entry, common in _each_point(name, recipe):
        stated = {**recipe, **entry, **group}
        yield {
            **common,
            "num_layers": group.get("model", {}).get("num_layers") or recipe["model"]["num_layers"],
            **_proxy(_reduced(recipe["model"], group)),
            "settings": SETTINGS[recipe["workload"]](stated),
            **dict.fromkeys(("seq_length", "mbs", "gbs", "cp", "vp")),
            **{degree: stated.get(degree, 1) for degree in ("tp", "pp", "ep", "dp")},
        }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def differences(model: Mapping[str, Any], whole: Mapping[str, Any]) -> tuple[Reduced, ...]:
    """The dimensions in which ``model`` differs from ``whole``, one of which may state what is another's default."""
    if flat(model).keys() ^ flat(whole).keys() <= ABSENT:
        return reductions(model, whole)
    from benchrun.model import ModelShape

    return reductions(*map(ModelShape.model_validate, (model, whole)))


def _reduced(model: Mapping[str, Any], group: Mapping[str, Any]) -> tuple[Reduced, ...]:
    sizes = {**model, **group.get("model", {})}
    sizes["num_layers"] = group.get("num_layers") or sizes["num_layers"]
    if model.get("moe"):
        sizes["moe"] = {**model["moe"], **sizes["moe"]}
    return differences(sizes, model)


@functools.cache
def _site_image(gpu: str, framework: str, published: str | None) -> str | None:
    """The image that the default cluster of a GPU would use instead of the recipe's; None for a GPU without one."""
    try:
        container = cluster_document(default_cluster(gpu)).get("container", {})
    except UserError:
        return None
    images = container.get("images", {})
    image: str | None = images.get(framework) or images.get(published) or container.get("image")
    return image
