"""Evidence packs: the layout, the manifest, and the archive.

NAME/index.html       the report: the verdict with every criterion, then each run with plots
NAME/acceptance.json  the verdict with every criterion, as ``benchrun plan --json`` prints it
NAME/plan.yaml        the plan
NAME/references.json  the reference numbers that the verdict rests on
NAME/recipes/         the recipes that are not shipped with benchrun
NAME/runs/RUN/        each run, failed ones too: specification, logs, telemetry, environment, scripts, measurement;
                      of the check of nodes what each rank measured, and the comparison
NAME/manifest.json    version of benchrun, the point of each run, sha256 of every other file
"""

import contextlib
import gzip
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import NonNegativeInt, StringConstraints

from benchrun.errors import BenchrunError
from benchrun.model import Frozen
from benchrun.vocabulary import Exit

MANIFEST = "manifest.json"
PLAN = "plan.yaml"
ACCEPTANCE = "acceptance.json"
REFERENCES = "references.json"
PAGE = "index.html"
RECIPES = "recipes"
RUNS = "runs"
ARCHIVE = ".tar.gz"
ARCHIVES = (ARCHIVE, ".tgz")
"""Endings of a packed pack; without one a pack is a directory."""
CHUNK = 1 << 20


Kind = Literal[
    "unsafe_path",
    "unreadable",
    "missing_file",
    "added_file",
    "changed_file",
    "manifest",
    "plan",
    "run",
    "script",
    "ending",
    "numbers",
    "reference",
    "verdict",
    "report",
    "version",
]


RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class Manifest(Frozen):
    """manifest.json."""

    schema_version: Literal[1] = 1
    """Version of this file's schema."""
    benchrun: str
    """Version of benchrun that wrote the pack."""
    commit: str | None
    """Its git commit; null outside a checkout."""
    redacted: bool
    """Whether names, paths and addresses of the site were replaced."""
    plan: str
    """Name of the plan."""
    runs: dict[RunName, NonNegativeInt]
    """Run -> position of its point in the plan, from 1; 0 is the check of nodes."""
    files: dict[str, str]
    """Path of every other file -> sha256 of its content, in hexadecimal digits."""


class Reason(Frozen):
    """Reason why a pack is refused, or what to know about it."""

    kind: Kind
    """Kind of disagreement."""
    file: str
    """Path in the pack."""
    detail: str
    """Values that were expected and found, in words."""

    def __init__(self, kind: Kind, file: str, detail: str) -> None:
        super().__init__(**{"kind": kind, "file": file, "detail": detail})


class Refused(BenchrunError):
    """A pack that cannot be read further (exit code 4)."""

    exit_code = Exit.INCONCLUSIVE

    def __init__(self, *reasons: Reason) -> None:
        super().__init__("; ".join(f"{reason.file}: {reason.detail}" for reason in reasons))
        self.reasons = reasons


def sha256(content: IO[bytes]) -> str:
    """Hexadecimal digest of an open file."""
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def hashes(root: Path) -> dict[str, str]:
    """Path below ``root`` -> sha256, of every file but the manifest."""
    digests = {}
    for name in sorted(packed_files(root)):
        if name != MANIFEST:
            with (root / name).open("rb") as content:
                digests[name] = sha256(content)
    return digests


def packed_files(root: Path) -> Iterator[str]:
    """Path below ``root`` of every file. Refused for a link, a pipe or a device."""
    for folder, folders, names in os.walk(root, followlinks=False):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            place = path.relative_to(root).as_posix()
            if not stat.S_ISDIR(mode):
                if not stat.S_ISREG(mode):
                    raise Refused(Reason("unsafe_path", place, "is no regular file"))
                yield place


def archive(folder: Path, target: Path) -> None:
    """Write ``folder`` as ``target``: the same bytes for the same content, whoever
    packs it and when.
    """
    with contextlib.ExitStack() as files:
        raw = files.enter_context(target.open("xb"))
        packed = files.enter_context(gzip.GzipFile("", "wb", mtime=0, fileobj=raw))
        tar = files.enter_context(tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT))
        top = next(
            target.name.removesuffix(ending) for ending in ARCHIVES if target.name.endswith(ending)
        )
        for name in sorted(packed_files(folder)):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = (folder / name).stat().st_size
            with (folder / name).open("rb") as content:
                tar.addfile(entry, content)
