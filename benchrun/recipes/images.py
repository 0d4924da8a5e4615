"""The image of a run, or without a container the scripts of its framework: the site's,
or else the recipe's.
"""

import re

from benchrun.errors import UserError, closest
from benchrun.frameworks.base import NEMO_IMAGES, Framework
from benchrun.frameworks.registry import FRAMEWORKS, framework, names
from benchrun.runspec.cluster import Cluster
from benchrun.runspec.image_names import nemo_release

from .yamlfile import Document

_REFERENCE = re.compile(r"[/:]")
"""Signs in the name of a published image that the name of a framework does not have."""


def is_of_nemo(name: str) -> bool:
    """Whether a key of ``container.images``, a framework or a published image, is of
    NeMo.
    """
    if _REFERENCE.search(name):
        return re.search(NEMO_IMAGES.pattern, name.lower()) is not None
    return framework(name).images == NEMO_IMAGES


def image_of_run(
    cluster: Cluster, framework: Framework, from_recipe: str | None, document: Document
) -> str | None:
    """The site's image, or else the recipe's. UserError if its name is that of another
    framework.
    """
    _check_names(cluster, document)
    container, from_site = cluster.container, framework.site_image(cluster, from_recipe)
    image = from_site or from_recipe
    any_will_do = not framework.release_matters and (
        from_site is None or container.runtime == "none"
    )
    if any_will_do or (problem := image_error(image, framework)) is None:
        return image
    named = next(
        (name for name in (framework.name, from_recipe or "") if name in container.images), None
    )
    key = ("images", named) if named is not None else ("image",)
    raise UserError(
        problem,
        hint=f"name one for each framework: --set cluster.container.images.{framework.name}=IMAGE",
        where=document.where(("cluster", "container", *key) if from_site else ("image",)),
    )


def image_error(image: str | None, framework: Framework) -> str | None:
    """The error of an image whose name shows another framework; None if it may be
    right.
    """
    name = (image or "").rpartition("/")[2].lower()
    families = dict.fromkeys((framework.images, *(other.images for other in FRAMEWORKS.values())))
    family = next((family for family in families if re.search(family.pattern, name)), None)
    if family not in (None, framework.images):
        return f"image {image} is for {family.name}; this run uses {framework.name}"
    of_nemo = framework.release_matters or family == NEMO_IMAGES
    return framework.wrong_release(image, nemo_release(image)) if of_nemo else None


def _check_names(cluster: Cluster, document: Document) -> None:
    """UserError unless images and scripts are those of registered frameworks."""
    images = [name for name in cluster.container.images if not _REFERENCE.search(name)]
    for key, given in (("container.images", images), ("frameworks", cluster.frameworks)):
        for name in given:
            if name not in FRAMEWORKS:
                where = document.where(("cluster", *key.split("."), name))
                raise UserError(
                    f"'cluster.{key}.{name}' is {name!r}", hint=closest(name, names()), where=where
                )
    for name, installed in cluster.frameworks.items():
        if cluster.container.runtime != "none" and installed.path and not FRAMEWORKS[name].scripts:
            reason = f"{name} starts as a module of its image, so cluster.frameworks.{name}.path would not be used"
            hint = "set cluster.env.PYTHONPATH, with what the image needs too"
            raise UserError(
                reason, hint=hint, where=document.where(("cluster", "frameworks", name))
            )


def missing_scripts(cluster: Cluster, framework: Framework) -> str | None:
    """Reason why ``framework`` cannot be launched without a container; None if it can,
    or if there is one.
    """
    if (
        cluster.container.runtime != "none"
        or not framework.scripts
        or framework.installed(cluster).path
    ):
        return None
    key = f"cluster.frameworks.{framework.name}.path"
    return (
        f"without a container the site must state where the scripts of {framework.name} are: {key}"
    )
