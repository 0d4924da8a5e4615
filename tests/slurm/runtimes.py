"""The container runtimes that the test cluster runs, and what a site file says for each of them here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import DIR, HERE

ROOTFS = DIR / "rootfs"
ENGINES = HERE / "engines.sh"
REAL_PYXIS = "PYXIS_SOURCE" in os.environ
"""Whether engines.sh builds the real plugin, which takes no unpacked image."""
SITE = {
    "charliecloud": (str(ROOTFS), ()),
    "pyxis": (f"{ROOTFS}.sqsh" if REAL_PYXIS else str(ROOTFS), ()),
    "podman": ("benchrun-test", ("CONTAINERS_CONF={}/containers.conf", "CONTAINERS_STORAGE_CONF={}/storage.conf")),
    "docker": ("benchrun-test", ("DOCKER_HOST=unix://{}/docker.sock",)),
}
"""The image of each, and the environment in which its command finds its storage or its daemon on a node."""
RUNTIMES = tuple(SITE)


def make_rootfs() -> None:
    """A Debian whose Python is the one that the worker's libraries were built for."""
    made = subprocess.run([HERE / "rootfs.sh", str(ROOTFS)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.fail(f"no root file system: {made.stderr}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (ROOTFS / "usr/bin" / version).exists():
        pytest.skip(f"this Debian has no {version}, which the installed PyTorch needs")


def start(runtime: str) -> None:
    """Bring the engine up on every node. CI must run all of them; elsewhere the reason for a skip is the engine's."""
    make_rootfs()
    if runtime == "charliecloud":
        return  # cluster.sh installs it, and it needs no more
    started = subprocess.run([ENGINES, "start", runtime], capture_output=True, text=True, check=False)
    if started.returncode:
        why = f"{runtime} does not start here: {started.stderr.strip()}"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)


def settings(runtime: str, mounted: Path) -> list[str]:
    """The ``--set`` options for a run inside the runtime, with a directory mounted at /opt/site."""
    image, environment = SITE[runtime]
    exports = ", ".join("export " + variable.format(DIR / "own") for variable in environment)
    return [
        f"cluster.container.runtime={runtime}",
        f"cluster.container.image={image}",
        f"cluster.container.mounts=[{mounted}:/opt/site]",
        f"cluster.setup=[{exports}]",
    ]


def containers(runtime: str, node: str, run: str) -> list[str]:
    """What the engine itself still runs on a node; nothing for a runtime without one."""
    if runtime not in ("podman", "docker"):
        return []
    listed = [ENGINES, "on", node, runtime, "ps", "--quiet", "--filter", f"label=benchrun={run}"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
