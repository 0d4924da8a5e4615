"""env.json: where and with what a run ran. Facts only; the environment itself is never written down."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any

from benchrun import __version__, paths
from benchrun.launch.documents import as_object, read_object, read_text
from benchrun.launch.rundir import RunDir

ECHOED_WITHIN = 16 << 20
"""Bytes of a log in which the worker's own versions are looked for."""


def write_env(run: RunDir) -> None:
    """Write env.json: this tool's version and commit, the image, and what each node said of itself.

    Once all nodes are in it, it stays as it is: they may reach a shared file system after the end of the job.
    """
    if described(run):
        return
    run.write_json(
        "env.json",
        {
            "schema_version": 1,
            "benchrun": __version__,
            "commit": _commit(),
            "image": run.spec.container_image,
            "submit_host": platform.node(),
            "python": platform.python_version(),
            "worker": _worker(run),
            "nodes": _nodes(run),
        },
    )


def described(run: RunDir) -> bool:
    """Whether env.json is written and holds every node of the run."""
    nodes = (run.read_json("env.json") or {}).get("nodes")
    return isinstance(nodes, list) and len(nodes) >= run.spec.num_nodes


def _nodes(run: RunDir) -> list[dict[str, Any]]:
    unreadable = "the node's own description is not valid JSON"
    files = sorted((run.path / "probe").glob("*.json"))
    return [read_object(path) or {"host": path.stem, "error": unreadable} for path in files]


def _worker(run: RunDir) -> dict[str, Any] | None:
    """The versions that the worker echoed at its start (torch, megatron-core, CUDA ...)."""
    prefix = "benchrun config: "
    for log in run.logs:
        for line in (read_text(log, ECHOED_WITHIN) or "").splitlines():
            _, found, config = line.partition(prefix)
            if found:
                versions = (as_object(config) or {}).get("versions")
                return versions if isinstance(versions, dict) else None
    return None


def _commit() -> str | None:
    """The commit of the checkout this runs from, ``+dirty`` with uncommitted changes.

    A wheel or a copy has none: there ``$BENCHRUN_COMMIT`` is believed, and None without it.
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
