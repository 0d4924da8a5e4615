"""The rows of ``benchrun list``, taken from the groups of a recipe: resolving thousands of points would be slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchrun.model import ModelShape
from benchrun.model.layout import Layout
from benchrun.recipe import catalogue
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import checked
from benchrun.recipe.draft import leaves, set_value
from benchrun.recipe.proxy import dimensions, reductions
from benchrun.spec.reduction import Reduced

DEGREES = ("tp", "pp", "cp", "vp", "ep")


def listed(file: RecipeFile) -> Iterator[dict[str, Any]]:
    """One row per point of ``file``, in its order, with the values of `resolve_point`."""
    groups = [(_layout(file, index), _reduced(file, index)) for index in range(len(file.recipe.points))]
    for point in catalogue.points(file.recipe):
        yield _row(file, point, *groups[point.index])


def _layout(file: RecipeFile, index: int) -> Layout:
    return checked(Layout, file.document, ("points", index, "layout"), file.recipe.points[index].layout)


def _reduced(file: RecipeFile, index: int) -> tuple[Reduced, ...]:
    group, whole = file.recipe.points[index], file.recipe.model
    layers = group.num_layers or whole.num_layers
    if not group.model:
        return reductions(whole.model_copy(update={"num_layers": layers}), whole)
    shape = whole.model_dump()
    for path, value in [*leaves(group.model), (("num_layers",), layers)]:
        set_value(shape, path, value)
    return reductions(checked(ModelShape, file.document, ("points", index, "model"), shape), whole)


def _row(file: RecipeFile, point: Point, layout: Layout, reduced: tuple[Reduced, ...]) -> dict[str, Any]:
    recipe, group = file.recipe, point.group
    return {
        "recipe": file.name,
        "task": recipe.task,
        "framework": point.framework,
        "gpu": point.gpu,
        "precision": point.precision,
        "num_gpus": point.num_gpus,
        "num_layers": group.num_layers or recipe.model.num_layers,
        "dimensions": dimensions(reduced),
        "proxy": bool(reduced),
        "seq_length": group.seq_length or recipe.seq_length,
        "mbs": group.mbs,
        "gbs": group.batch(point.num_gpus),
        **{degree: getattr(layout, degree) for degree in DEGREES},
        "dp": point.num_gpus // (layout.tp * layout.pp * layout.cp),
        "image": _site_image(point.gpu, point.framework) or recipe.frameworks[point.framework].image,
    }


def _site_image(gpu: str, framework: str) -> str | None:
    """The image that the default cluster of a GPU would use instead."""
    container = catalogue.cluster_document(catalogue.default_cluster(gpu)).data.get("container", {})
    image: str | None = container.get("images", {}).get(framework, container.get("image"))
    return image
