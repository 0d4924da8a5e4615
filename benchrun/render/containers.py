"""Image names, mounts and variables of each container runtime."""

from __future__ import annotations

from benchrun.frameworks.registry import framework
from benchrun.spec.identity import is_path
from benchrun.spec.runspec import RunSpec

_RANK = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE")


def image_for(spec: RunSpec) -> str | None:
    """The image as the cluster's runtime expects it.

    enroot separates registry and name by ``#`` (``nvcr.io#nvidia/nemo:25.07``); apptainer and singularity take a
    ``docker://`` address; charliecloud, podman and docker take the name as it is; paths stay as they are.
    """
    image, runtime = spec.image, spec.cluster.container.runtime
    if image is None or is_path(image):
        return image
    if runtime == "pyxis":
        registry, slash, rest = image.partition("/")
        return f"{registry}#{rest}" if slash and "." in registry else image
    return f"docker://{image}" if runtime in ("apptainer", "singularity") else image


def mount_of(text: str) -> dict[str, str | bool]:
    """The parts of ``source:target`` or ``source:target:ro``."""
    source, target, *flags = text.split(":")
    return {"source": source, "target": target, "readonly": flags == ["ro"]}


def unmountable(runtime: str) -> str:
    """Characters at which the runtime's own syntax for mounts would split a path."""
    both = dict.fromkeys(("pyxis", "apptainer", "singularity"), ":,") | dict.fromkeys(("podman", "docker"), ',"')
    return {**both, "charliecloud": ":"}.get(runtime, "")


def inside_env(spec: RunSpec) -> tuple[str, ...]:
    """Names of the variables that a rank needs inside the container."""
    launched = framework(spec.framework)
    data = ("BENCHRUN_DATA",) if spec.reads_files else ()
    # Only if the ranks import this package: the image may set a PYTHONPATH for its framework (NeMo's Dockerfile.ci
    # does), and the submitting shell's would replace it.
    path = ("PYTHONPATH",) if spec.cluster.container.runtime != "pyxis" and (launched.own_worker or data) else ()
    slurm = launched.rank_variables if spec.cluster.scheduler == "slurm" else ()
    pipe = ("BENCHRUN_PIPE",) if spec.cluster.container.runtime in ("podman", "docker") else ()
    return (*_RANK, *pipe, *path, *slurm, *data, *sorted(spec.env), *spec.cluster.secrets)
