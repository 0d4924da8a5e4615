"""Container images that runs need, how to pull each, and the site's file for it."""

import re
from collections.abc import Sequence
from typing import Any

from benchrun.errors import UserError
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.recipes.catalogue import checked, is_suite
from benchrun.recipes.files import cluster_document
from benchrun.recipes.select import Request
from benchrun.runspec.cluster import Cluster

from .listing import list_points
from .points import resolve

COMMANDS = {
    "pyxis": ("sqsh", "enroot import --output {file} docker://{enroot}"),
    "apptainer": ("sif", "apptainer pull {file} docker://{image}"),
    "singularity": ("sif", "singularity pull {file} docker://{image}"),
    "charliecloud": ("tar.gz", "ch-image pull {image} && ch-convert {image} {file}"),
    "podman": ("tar", "podman pull {image} && podman save --output {file} {image}"),
    "docker": ("tar", "docker pull {image} && docker save --output {file} {image}"),
}
"""Container runtime -> ending of an image's file, and the command that makes it."""


def list_images(
    recipes: Sequence[str] = (),
    cluster: str | None = None,
    gpu: str | None = None,
    framework: str | None = None,
) -> list[dict[str, Any]]:
    """One row an image: who needs it, the site's file for it (None if the registry is
    used), how to pull it.

    UserError for an unknown recipe or framework, and for a wrong site file.
    """
    site = None
    if cluster:
        site = checked(Cluster, cluster_document(cluster))
    runtime = "pyxis"
    if site and site.container.runtime in COMMANDS:
        runtime = site.container.runtime
    gpu = gpu or (site.gpu if site else None)
    needs: dict[str, dict[tuple[str, str], None]] = {}
    for recipe, name, image in _users(recipes, gpu):
        if image and framework in (None, name):
            needs.setdefault(image, {})[recipe, name] = None
    ending, command = COMMANDS[runtime]
    rows = []
    for image, users in needs.items():
        names = sorted({name for _, name in users})
        files = {FRAMEWORKS[name].site_image(site, image) for name in names} if site else {None}
        file = f"{re.sub(r'[/:]', '+', image.partition('/')[2] or image)}.{ending}"
        pull = command.format(file=file, image=image, enroot=image.replace("/", "#", 1))
        rows.append(
            {
                "image": image,
                "site": next(iter(files))
                if len(files) == 1
                else ", ".join(sorted(map(str, files))),
                "frameworks": names,
                "recipes": len({recipe for recipe, _ in users}),
                "file": file,
                "pull": pull,
            }
        )
    return sorted(rows, key=lambda row: str(row["image"]))


def _users(recipes: Sequence[str], gpu: str | None) -> dict[tuple[str, str, str | None], None]:
    """Recipe, framework and image of every run of suites, and of every point of recipes
    that is for ``gpu``.
    """
    users: dict[tuple[str, str, str | None], None] = {}
    suites = list(filter(is_suite, recipes))
    for suite in suites:
        for spec in resolve(Request(suite)):
            users[spec.recipe, spec.framework, spec.image] = None
    others = [name for name in recipes if name not in suites]
    if others or not recipes:
        try:
            rows = list_points(others, gpu)
        except UserError:
            rows = list_points(others)  # a GPU without points uses those of another
        for row in rows:
            users[row["recipe"], row["framework"], row["image"]] = None
    return users
