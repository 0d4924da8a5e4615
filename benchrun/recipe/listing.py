"""The rows of ``benchrun list``, from the YAML of the recipes: checking thousands of points would be slow."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from benchrun.recipe.files import cluster_document, default_cluster, recipe_document
from benchrun.vocabulary import Reduced, flat, reductions

DEGREES = ("tp", "pp", "cp", "vp", "ep")
COLUMNS = (
    *("recipe", "task", "framework", "gpu", "precision", "num_gpus", "proxy", "seq_length", "mbs", "gbs", *DEGREES),
    *("dp", "image"),
)
"""Keys of a row, without those that only count its references."""


def listed(recipe_name: str) -> Iterator[dict[str, Any]]:
    """One row per point of a training's recipe, in its order, with the values of `resolve_point`."""
    name, recipe = recipe_document(recipe_name)
    model = recipe["model"]
    for group in recipe["points"]:
        reduced = _reduced(model, group)
        degrees = {degree: group.get("layout", {}).get(degree, 1) for degree in DEGREES}
        ranks = degrees["tp"] * degrees["pp"] * degrees["cp"]
        frameworks = group.get("framework") or list(recipe["frameworks"])
        keys = map(_list, (group["gpu"], group["precision"], frameworks, group["num_gpus"]))
        for gpu, precision, framework, num_gpus in product(*keys):
            yield {
                "recipe": name,
                "task": recipe["task"],
                "framework": framework,
                "gpu": gpu,
                "precision": precision,
                "num_gpus": num_gpus,
                "num_layers": group.get("num_layers") or model["num_layers"],
                "dimensions": tuple(each for each in reduced if each.name != "num_layers"),
                "settings": "",
                "proxy": bool(reduced),
                "seq_length": group.get("seq_length") or recipe["seq_length"],
                "mbs": group["mbs"],
                "gbs": group.get("gbs") or int(group["gbs_per_gpu"] * num_gpus),
                **degrees,
                "dp": num_gpus // ranks,
                "image": _site_image(gpu, framework) or (recipe["frameworks"][framework] or {}).get("image"),
            }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def differences(model: Mapping[str, Any], whole: Mapping[str, Any]) -> tuple[Reduced, ...]:
    """The dimensions in which ``model`` differs from ``whole``, one of which may state what is another's default."""
    if flat(model).keys() == flat(whole).keys():
        return reductions(model, whole)
    from benchrun.model import ModelShape

    return reductions(*map(ModelShape.model_validate, (model, whole)))


def _reduced(model: Mapping[str, Any], group: Mapping[str, Any]) -> tuple[Reduced, ...]:
    sizes = {**model, **group.get("model", {}), "num_layers": group.get("num_layers") or model["num_layers"]}
    if model.get("moe"):
        sizes["moe"] = {**model["moe"], **sizes["moe"]}
    return differences(sizes, model)


@functools.cache
def _site_image(gpu: str, framework: str) -> str | None:
    """The image that the default cluster of a GPU would use instead of the recipe's."""
    container = cluster_document(default_cluster(gpu)).get("container", {})
    image: str | None = container.get("images", {}).get(framework, container.get("image"))
    return image
