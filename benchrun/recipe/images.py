"""The container image of a run: the site's or else the recipe's, and never that of another framework."""

from __future__ import annotations

import re

from benchrun.errors import UserError, closest
from benchrun.frameworks.base import NEMO_IMAGES, Framework
from benchrun.frameworks.registry import FRAMEWORKS, names
from benchrun.recipe.yamlfile import Document
from benchrun.spec.cluster import Cluster
from benchrun.spec.images import last_part, nemo_release


def image_of_run(cluster: Cluster, framework: Framework, from_recipe: str | None, document: Document) -> str | None:
    """The site's image, or else the recipe's. UserError if its name is that of another framework."""
    _check_names(cluster, document)
    _check_scripts(cluster, framework, document)
    container = cluster.container
    from_site = framework.site_image(cluster)
    image = from_site or from_recipe
    if not framework.release_matters and (from_site is None or container.runtime == "none"):
        return image
    problem = foreign(image, framework)
    if problem is None:
        return image
    key = ("images", framework.name) if framework.name in container.images else ("image",)
    raise UserError(
        problem,
        hint=f"name one for each framework: --set cluster.container.images.{framework.name}=IMAGE",
        where=document.where(("cluster", "container", *key) if from_site else ("image",)),
    )


def foreign(image: str | None, framework: Framework) -> str | None:
    """The error of an image whose name shows another framework; None if it may be right."""
    release, name = nemo_release(image), last_part(image).lower()
    if framework.release_matters and (problem := framework.wrong_release(image, release)):
        return problem
    families = dict.fromkeys((framework.images, *(other.images for other in FRAMEWORKS.values())))
    family = next((family for family in families if re.search(family.pattern, name)), None)
    if family not in (None, framework.images):
        return f"image {image} is one of {family.name}, and the run is of {framework.name}"
    return framework.wrong_release(image, release) if family == NEMO_IMAGES else None


def _check_names(cluster: Cluster, document: Document) -> None:
    """UserError unless images and scripts are those of registered frameworks."""
    with_scripts = names(lambda framework: framework.scripts is not None)
    for loc, given, legal in (
        (("cluster", "container", "images"), cluster.container.images, names()),
        (("cluster", "sources"), cluster.sources, with_scripts),
    ):
        for name in given:
            if name not in legal:
                where = document.where((*loc, name))
                raise UserError(f"'{'.'.join((*loc, name))}' is {name!r}", hint=closest(name, legal), where=where)


def _check_scripts(cluster: Cluster, framework: Framework, document: Document) -> None:
    name = framework.name
    if cluster.container.runtime == "none" and framework.scripts and name not in cluster.sources:
        raise UserError(
            f"without a container the site must state the folder of the scripts of {name}: cluster.sources.{name}",
            hint=f"--set cluster.sources.{name}=DIR; images have them in {framework.scripts}",
            where=document.where(("cluster", "container", "runtime")),
        )
