"""Which container image a run is in, where its framework lies in it, and what a site may not say of either."""

from __future__ import annotations

import re

from benchrun.spec.cluster import Cluster, Container, Framework

NEMO1_RELEASES = ("24.05", "24.09", "24.12")
RELEASES: dict[Framework, tuple[str, str]] = {"nemo2": ("25.02", "25.09"), "megatron-bridge": ("25.09", "99.12")}
"""The first and the last NeMo container that carries a framework as its template here launches it."""
FAMILIES = {"maxtext": r"maxtext", "paxml": r"(?<![a-z])pax", "NeMo": r"nemo"}
"""Images whose name says for what they are."""
IN_IMAGES: dict[str, str] = {"megatron-lm": "/opt/megatron-lm", "nemo1": "/opt/NeMo", "maxtext": "/opt/maxtext"}
"""Where the images have the scripts of the frameworks that are not launched as a module."""


def nemo_release(image: str | None) -> str | None:
    """The release in an image's name, e.g. ``24.09`` in ``nvcr.io/nvidia/nemo:24.09`` or ``nemo+24.09.sqsh``."""
    found = re.search(r"(?<!\d)(2\d\.\d\d)(?!\d)", _name(image))
    return found[1] if found else None


def is_path(image: str) -> bool:
    """Whether an image is a file or directory rather than a name in a registry."""
    return image.startswith(("/", "./", "../", "~")) or image.endswith((".sqsh", ".sif"))


def site_image(container: Container, framework: Framework) -> str | None:
    """The image that the site names for ``framework``; None where it names none, and the recipe's is used."""
    return container.images.get(framework, container.image)


def source(cluster: Cluster, framework: Framework) -> str | None:
    """The folder of the framework's scripts, as the ranks see it; None where it is a module."""
    places: dict[str, str] = {**IN_IMAGES, **dict(cluster.sources.items())}
    return places.get(framework)


def foreign(image: str | None, framework: Framework) -> str | None:
    """What is wrong where the name of ``image`` says that it is another framework's; None where it may be right."""
    release, name = nemo_release(image), _name(image).lower()
    if framework == "nemo1" and release not in NEMO1_RELEASES:
        legal = ", ".join(NEMO1_RELEASES)
        return f"nemo1 must know its release: the image's name ({image}) must hold one of {legal}"
    family = next((family for family, mark in FAMILIES.items() if re.search(mark, name)), None)
    if family and family != (framework if framework in FAMILIES else "NeMo"):
        return f"image {image} is one of {family}, and the run is of {framework}"
    first, last = RELEASES.get(framework, ("", "99.12"))
    if family == "NeMo" and release and not first <= release <= last:
        carry = f"{first} to {last}" if last < "99" else f"{first} and later"
        return f"image {image} is NeMo {release}, and {framework} is launched in NeMo {carry}"
    return None


def _name(image: str | None) -> str:
    return (image or "").rpartition("/")[2]
