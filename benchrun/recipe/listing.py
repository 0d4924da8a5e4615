"""What ``benchrun list`` says of each point, straight from its group: thousands of points, none resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchrun.recipe import catalogue
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import checked
from benchrun.recipe.spec import Layout
from benchrun.recipe.yamlfile import Document

DEGREES = ("tp", "pp", "cp", "vp", "ep")


def listed(file: RecipeFile, gpu: str | None = None) -> Iterator[dict[str, Any]]:
    """One row a point of ``file``, in its order: what `resolve_point` would say of it. Only those for ``gpu``."""
    layouts = [_layout(file, index) for index in range(len(file.recipe.points))]
    for point in catalogue.points(file.recipe):
        if gpu is None or point.gpu.lower() == gpu.lower():
            yield _row(file, point, layouts[point.index])


def _layout(file: RecipeFile, index: int) -> Layout:
    if not file.recipe.points[index].layout:
        return Layout()
    loc = ("points", index, "layout")
    part = file.document.at(*loc)
    return checked(Layout, Document(part.data, {(): file.document.where(loc), **part.places}))


def _row(file: RecipeFile, point: Point, layout: Layout) -> dict[str, Any]:
    recipe, group = file.recipe, point.group
    num_layers = group.num_layers or recipe.model.num_layers
    return {
        "recipe": file.name,
        "task": recipe.task,
        "framework": point.framework,
        "gpu": point.gpu,
        "precision": point.precision,
        "num_gpus": point.num_gpus,
        "num_layers": num_layers,
        "proxy": num_layers != recipe.model.num_layers,
        "seq_length": group.seq_length or recipe.seq_length,
        "mbs": group.mbs,
        "gbs": group.batch(point.num_gpus),
        **{degree: getattr(layout, degree) for degree in DEGREES},
        "dp": point.num_gpus // (layout.tp * layout.pp * layout.cp),
        "image": _site_image(point.gpu) or recipe.frameworks[point.framework].image,
    }


def _site_image(gpu: str) -> str | None:
    """The image that the default cluster of a GPU would use instead."""
    document = catalogue.cluster_document(catalogue.default_cluster(gpu))
    image: str | None = document.data.get("container", {}).get("image")
    return image
