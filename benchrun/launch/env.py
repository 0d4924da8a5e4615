"""Writes env.json: hosts, versions and image of a run. No environment variables: they may be secret."""

from __future__ import annotations

import os
import platform
import re
from typing import Any

from benchrun import __version__, paths
from benchrun.launch.commands import output
from benchrun.launch.rundir import RunDir, as_object, read_text
from benchrun.spec.artifacts import ENV, PROBE, Environment

ECHOED_WITHIN = 16 << 20
"""Bytes of a log that are searched for the worker's versions."""
_UNREADABLE = "the node's own description is not valid JSON"


def write_env(run: RunDir) -> None:
    """Write env.json, unless it has all nodes: their files may reach a shared file system after the end of the job."""
    if described(run):
        return
    probes = sorted((run.path / PROBE).glob("*.json"))
    environment = Environment(
        benchrun=__version__,
        commit=_commit(),
        image=run.spec.container_image,
        submit_host=platform.node(),
        python=platform.python_version(),
        worker=_worker(run),
        nodes=tuple(as_object(read_text(path)) or {"host": path.stem, "error": _UNREADABLE} for path in probes),
    )
    run.write_json(ENV, environment.model_dump(mode="json"))


def described(run: RunDir) -> bool:
    """Whether env.json is written and holds every node of the run."""
    nodes = (run.read_json(ENV) or {}).get("nodes")
    return isinstance(nodes, list) and len(nodes) >= run.spec.num_nodes


def _worker(run: RunDir) -> dict[str, Any] | None:
    """The versions that the worker printed at its start (torch, megatron-core, CUDA ...)."""
    texts = (read_text(log, ECHOED_WITHIN) or "" for log in run.logs)
    config = next((match[1] for text in texts if (match := re.search(r"benchrun config: (.*)", text))), None)
    versions = (as_object(config) or {}).get("versions")
    return versions if isinstance(versions, dict) else None


def _commit() -> str | None:
    """The commit of this checkout, ``+dirty`` with uncommitted changes; in a wheel or copy ``$BENCHRUN_COMMIT``."""
    if not (paths.DATA / ".git").exists():
        return os.environ.get("BENCHRUN_COMMIT")
    return output("git", "-C", str(paths.DATA), "describe", "--always", "--dirty=+dirty", "--abbrev=12", "--exclude=*")
