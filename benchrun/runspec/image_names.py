"""Facts in the name of a container image: name and tag, NeMo's release, whether it is a
file.
"""

import re


def image_name(image: str) -> str:
    """``name:tag`` of an image in any registry or folder: ``nemo:25.07`` for
    ``/images/nvidia+nemo+25.07.sqsh``.
    """
    last = re.sub(
        r"\.(sqsh|sif|simg|img|tar|tgz)$",
        "",
        image.rstrip("/").rpartition("/")[2].rpartition("#")[2],
    )
    if ":" in last or "@" in last:
        name, _, digest = last.partition("@")
        if ":" in name:
            return name
        return f"{name}:{digest}"
    if "+" in last:
        return ":".join(last.split("+")[-2:])
    versioned = re.fullmatch(r"(.+?)[-_](v?\d.*)", last)
    if not versioned:
        return last
    return f"{versioned[1]}:{versioned[2]}"


def nemo_release(image: str | None) -> str | None:
    """The release in an image's name, e.g. ``24.09`` in ``nvcr.io/nvidia/nemo:24.09``
    or ``nemo+24.09.sqsh``.
    """
    match = re.search(r"(?<!\d)(2\d\.\d\d)(?!\d)", (image or "").rpartition("/")[2])
    if not match:
        return None
    return match[1]


def is_path(image: str) -> bool:
    """Whether an image is a file or directory rather than a name in a registry."""
    return image.startswith(("/", "./", "../", "~")) or image.endswith((".sqsh", ".sif"))
