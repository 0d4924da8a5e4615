"""A run's files as they are kept and published: compressed, and without the names and paths of the machine."""

from __future__ import annotations

import json
import lzma
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchrun.errors import UserError
from benchrun.launch.rundir import ENDING, TELEMETRY, XZ, RunDir, unpacked

DOCUMENTS = (
    *("spec.json", "env.json", "data.json", "ceilings.json", "breakdown.json", "telemetry.json"),
    *("metrics.json", "verdict.json", ENDING),
)
SYSTEM = ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "sbin", "sys", "usr")
"""Folders that say nothing of whose machine it is."""
PATH = re.compile(rf"(?<![\w./])/(?!(?:{'|'.join(SYSTEM)})\b)[A-Za-z_.][\w.+@-]*(?:/[\w.+@=-]+)*/?")
"""An absolute path elsewhere."""
ADDRESS = re.compile(r"\b(?:10(?:\.\d{1,3}){3}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}|192\.168(?:\.\d{1,3}){2})\b")
"""An address inside a site."""


def kept_files(run: RunDir) -> dict[str, bytes]:
    """What is kept of ``run``, by name: its documents, its logs, and what was sampled beside it."""
    hosts = _hosts(run)
    files = {}
    for name in DOCUMENTS:
        document = run.read_json(name)
        if document is not None:
            files[name] = scrubbed(json.dumps(_anonymous(document), indent=2) + "\n", hosts).encode()
    for log in run.logs:
        files[log.name.removesuffix(XZ) + XZ] = _packed(unpacked(log).decode(errors="surrogateescape"), hosts)
    for host, text in run.telemetry().items():
        files[f"{TELEMETRY}/{_alias(hosts, host)}.csv{XZ}"] = _packed(text, hosts)
    return files


def scrubbed(text: str, hosts: Sequence[str]) -> str:
    """``text`` with each of ``hosts`` as node1, node2 ..., an own path as ``PATH/`` and its last part."""
    text = PATH.sub(lambda found: f"PATH/{found[0].rstrip('/').rpartition('/')[2]}", text)
    for host in sorted(hosts, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])(?:\.[A-Za-z][\w-]*)*", _alias(hosts, host), text)
    return ADDRESS.sub("ADDRESS", text)


def write_kept(folder: Path, name: str, files: Mapping[str, bytes]) -> RunDir:
    """A new directory ``name`` below ``folder`` with ``files``; never over another."""
    path = folder / name
    if path.exists():
        raise UserError(f"{path} exists", hint="a measurement is never overwritten; remove it first if you must")
    try:
        for file, content in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_bytes(content)
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise UserError(f"cannot be written: {error.strerror}", where=str(path)) from error
    return RunDir(path.resolve())


def _packed(text: str, hosts: Sequence[str]) -> bytes:
    return lzma.compress(scrubbed(text, hosts).encode(errors="surrogateescape"))


def _alias(hosts: Sequence[str], host: str) -> str:
    return f"node{hosts.index(host) + 1}"


def _hosts(run: RunDir) -> list[str]:
    """Every machine that the run's files name, those that computed first."""
    env = run.read_json("env.json") or {}
    nodes = env["nodes"] if isinstance(env.get("nodes"), list) else []
    hosts = [node.get("host") for node in nodes if isinstance(node, dict)]
    done = run.done()
    named = [*hosts, *run.telemetry(), done["host"] if done else None, env.get("submit_host")]
    return list(dict.fromkeys(host for host in named if isinstance(host, str) and host not in ("", "localhost")))


def _anonymous(document: Any) -> Any:
    """Without what tells one GPU from all others of its kind."""
    if isinstance(document, dict):
        return {key: _anonymous(value) for key, value in document.items() if key != "uuid"}
    return [_anonymous(value) for value in document] if isinstance(document, list) else document
