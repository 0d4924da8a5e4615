"""env.json: where and with what a run ran. Facts only; the environment itself is never written down."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from typing import Any

from benchrun import __version__, paths
from benchrun.launch.rundir import RunDir


def write_env(run: RunDir) -> None:
    """Write env.json once: this tool's version and commit, the image, and what each node said of itself."""
    if (run.path / "env.json").exists():
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


def _nodes(run: RunDir) -> list[dict[str, Any]]:
    found = []
    for path in sorted((run.path / "probe").glob("*.json")):
        try:
            found.append(json.loads(path.read_text()))
        except json.JSONDecodeError:
            found.append({"host": path.stem, "error": "the node's own description is not valid JSON"})
    return found


def _worker(run: RunDir) -> dict[str, Any] | None:
    """The versions that the worker echoed at its start (torch, megatron-core, CUDA ...)."""
    prefix = "benchrun config: "
    for log in run.logs:
        with log.open(errors="replace") as lines:
            for line in lines:
                at = line.find(prefix)
                if at >= 0:
                    try:
                        config = json.loads(line[at + len(prefix) :])
                    except json.JSONDecodeError:
                        return None
                    versions = config.get("versions")
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
