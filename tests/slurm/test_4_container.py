"""The worker trains inside a real container, through the suite's own script."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from .conftest import DIR, HERE


@pytest.fixture(scope="module")
def rootfs():
    """A Debian whose Python is the one that the worker's libraries were built for."""
    path = DIR / "rootfs"
    made = subprocess.run([HERE / "rootfs.sh", str(path)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.fail(f"no root file system: {made.stderr}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (path / "usr/bin" / version).exists():
        pytest.skip(f"this Debian has no {version}, which the installed PyTorch needs")
    return path


def test_two_nodes_train_inside_charliecloud(user, rootfs):
    site = Path(sysconfig.get_paths()["purelib"])
    run = user.launch(
        "tiny-llama",
        2,
        "cluster.gpus_per_node=1",
        "cluster.python=/opt/python",  # only the image has it
        "cluster.container.runtime=charliecloud",
        f"cluster.container.image={rootfs}",
        f"cluster.container.mounts=[{site}:/opt/site]",
        "cluster.env.PYTHONPATH=/opt/site",
    )
    row = user.wait(run, 180)
    assert (row["state"], row["last_step"]) == ("completed", 20), row
    log = (user.runs / run / "stdout.log").read_text()
    assert "benchrun done" in log
