"""What can be read from the name of a container image."""

from __future__ import annotations

import re


def nemo_release(image: str | None) -> str | None:
    """The release in an image's name, e.g. ``24.09`` in ``nvcr.io/nvidia/nemo:24.09`` or ``nemo+24.09.sqsh``."""
    match = re.search(r"(?<!\d)(2\d\.\d\d)(?!\d)", last_part(image))
    return match[1] if match else None


def is_path(image: str) -> bool:
    """Whether an image is a file or directory rather than a name in a registry."""
    return image.startswith(("/", "./", "../", "~")) or image.endswith((".sqsh", ".sif"))


def last_part(image: str | None) -> str:
    """The name of an image without its registry or folder."""
    return (image or "").rpartition("/")[2]
