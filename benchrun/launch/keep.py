"""A run's files as they are kept and published: compressed, without the names and paths of the machine."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchrun.errors import UserError
from benchrun.launch.redact import HIDDEN, public_env, public_image, public_spec, site_words
from benchrun.launch.rundir import RunDir, unpacked
from benchrun.spec import artifacts
from benchrun.spec.artifacts import ENV, SPEC, TELEMETRY, XZ

DOCUMENTS = (
    *(artifacts.DATA, artifacts.CEILINGS, artifacts.BREAKDOWN, artifacts.TELEMETRY_SUMMARY),
    *(artifacts.METRICS, artifacts.VERDICT, artifacts.ENDING),
)
"""Those that can name the site only inside a text."""
SYSTEM = ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "sbin", "sys", "usr")
"""Folders that every machine has."""
PATH = re.compile(rf"(?<![\w./])/(?!(?:{'|'.join(SYSTEM)})\b)[A-Za-z_.][\w.+@-]*(?:/[\w.+@=-]+)*/?")
"""An absolute path elsewhere."""
ADDRESS = re.compile(r"\b(?:10(?:\.\d{1,3}){3}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}|192\.168(?:\.\d{1,3}){2})\b")
"""An address inside a site."""
MAIL = re.compile(r"[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}\b")


def kept_files(run: RunDir) -> dict[str, bytes]:
    """The files that are kept of ``run``, by name: its documents, its logs, its telemetry."""
    hosts, words, image = _hosts(run), site_words(run.spec), run.spec.image
    public = {image: public_image(image)} if image else {}

    def clean(text: str) -> str:
        for private, name in public.items():
            text = text.replace(private, name or "")
        return scrubbed(text, hosts, words)

    documents = {name: document for name in DOCUMENTS if (document := run.read_json(name)) is not None}
    documents[SPEC] = public_spec(run.spec).model_dump(mode="json")
    documents[ENV] = public_env(run.read_json(ENV) or {})
    files = {name: json.dumps(_each_text(document, clean), indent=2) + "\n" for name, document in documents.items()}
    packed = {log.name.removesuffix(XZ): unpacked(log).decode(errors="surrogateescape") for log in run.logs}
    packed |= {f"{TELEMETRY}/{_alias(hosts, host)}.csv": text for host, text in run.telemetry().items()}
    return {
        **{name: text.encode() for name, text in files.items()},
        **{name + XZ: lzma.compress(clean(text).encode(errors="surrogateescape")) for name, text in packed.items()},
    }


def kept_name(run: RunDir) -> str:
    """RECIPE-IDENTITY-STAMP-XXXX; of a run that an older version named, its time and four digits from that name."""
    stamp = re.search(r"\d{8}T\d{6}Z(-[0-9a-f]{4}$)?", run.run_id)
    if stamp is None:
        return run.run_id
    end = stamp[0] if stamp[1] else f"{stamp[0]}-{hashlib.sha256(run.run_id.encode()).hexdigest()[:4]}"
    return f"{run.spec.recipe}-{run.spec.identity()}-{end}"


def scrubbed(text: str, hosts: Sequence[str], words: Sequence[str] = ()) -> str:
    """``text`` with each of ``hosts`` as node1, node2 ..., an own path as ``PATH/`` and its last part (a home as PATH).

    ``words`` of the site become ``SITE``, addresses and mail addresses ``ADDRESS``.
    """
    text = MAIL.sub("ADDRESS", PATH.sub(lambda match: _without_folder(match[0].rstrip("/")), text))
    for host in sorted(hosts, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])(?:\.[A-Za-z][\w-]*)*", _alias(hosts, host), text)
    if words:
        any_word = "|".join(re.escape(word) for word in words)
        text = re.sub(rf"(?<![A-Za-z0-9])(?:{any_word})[0-9]*(?![A-Za-z0-9])", HIDDEN, text)
    return ADDRESS.sub("ADDRESS", text)


def _without_folder(path: str) -> str:
    """The last part of a path, unless that is the name of a person."""
    return "PATH" if re.fullmatch(r"/(?:home|Users)/[^/]+", path) else f"PATH/{path.rpartition('/')[2]}"


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


def _alias(hosts: Sequence[str], host: str) -> str:
    return f"node{hosts.index(host) + 1}"


def _hosts(run: RunDir) -> list[str]:
    """Every machine that the run's files name, those that computed first."""
    env = run.read_json(ENV) or {}
    nodes = env["nodes"] if isinstance(env.get("nodes"), list) else []
    hosts = [node.get("host") for node in nodes if isinstance(node, dict)]
    done = run.done()
    named = [*hosts, *run.telemetry(), done.host if done else None, env.get("submit_host")]
    return list(dict.fromkeys(host for host in named if isinstance(host, str) and host not in ("", "localhost")))


def _each_text(document: Any, clean: Callable[[str], str]) -> Any:
    """``document`` with every text cleaned; keys and numbers stay."""
    if isinstance(document, dict):
        return {key: _each_text(value, clean) for key, value in document.items()}
    if isinstance(document, list):
        return [_each_text(value, clean) for value in document]
    return clean(document) if isinstance(document, str) else document
