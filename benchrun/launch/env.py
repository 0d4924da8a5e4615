"""env.json: where and with what a run ran. It holds no environment variables: they may be secret."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any

from benchrun import __version__, paths
from benchrun.launch.documents import as_object, read_object, read_text
from benchrun.launch.rundir import RunDir
from benchrun.spec.artifacts import ENV, PROBE, Environment

ECHOED_WITHIN = 16 << 20
"""Bytes of a log that are searched for the worker's versions."""


def write_env(run: RunDir) -> None:
    """Write env.json: this package's version and commit, the image, and each node's description.

    The nodes' files may reach a shared file system after the end of the job. Once env.json has all nodes it is final.
    """
    if described(run):
        return
    environment = Environment(
        benchrun=__version__,
        commit=_commit(),
        image=run.spec.container_image,
        submit_host=platform.node(),
        python=platform.python_version(),
        worker=_worker(run),
        nodes=tuple(_nodes(run)),
    )
    run.write_json(ENV, environment.model_dump(mode="json"))


def described(run: RunDir) -> bool:
    """Whether env.json is written and holds every node of the run."""
    nodes = (run.read_json(ENV) or {}).get("nodes")
    return isinstance(nodes, list) and len(nodes) >= run.spec.num_nodes


def _nodes(run: RunDir) -> list[dict[str, Any]]:
    unreadable = "the node's own description is not valid JSON"
    files = sorted((run.path / PROBE).glob("*.json"))
    return [read_object(path) or {"host": path.stem, "error": unreadable} for path in files]


def _worker(run: RunDir) -> dict[str, Any] | None:
    """The versions that the worker printed at its start (torch, megatron-core, CUDA ...)."""
    prefix = "benchrun config: "
    for log in run.logs:
        for line in (read_text(log, ECHOED_WITHIN) or "").splitlines():
            _, separator, config = line.partition(prefix)
            if separator:
                versions = (as_object(config) or {}).get("versions")
                return versions if isinstance(versions, dict) else None
    return None


def _commit() -> str | None:
    """The commit of the checkout this runs from, ``+dirty`` with uncommitted changes.

    A wheel or a copy has none: there it is ``$BENCHRUN_COMMIT``, or None.
    """
    if not (paths.DATA / ".git").exists():
        return os.environ.get("BENCHRUN_COMMIT")
    try:
        described = subprocess.run(
            ["git", "-C", str(paths.DATA), "describe", "--always", "--dirty=+dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
