"""Evidence packs: the layout, and reading one that somebody else wrote without trusting a name in it.

NAME/index.html       the report: the verdict with every criterion, then each run with plots
NAME/acceptance.json  the verdict with every criterion, as ``benchrun plan --json`` prints it
NAME/plan.yaml        the plan
NAME/references.json  the reference numbers that the verdict rests on
NAME/recipes/         the recipes that are not shipped with benchrun
NAME/runs/RUN/        each run, failed ones too: specification, logs, telemetry, environment, scripts, measurement
NAME/manifest.json    version of benchrun, the point of each run, sha256 of every other file
"""

import contextlib
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Literal

from pydantic import PositiveInt, StringConstraints

from benchrun.errors import BenchrunError
from benchrun.model import Frozen
from benchrun.spec.artifacts import XZ
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
MOST_BYTES = 16 << 30
"""Of all files of a pack together, unpacked."""
MOST_FILES = 100_000
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
    runs: dict[RunName, PositiveInt]
    """Run -> position of its point in the plan, from 1."""
    files: dict[str, str]
    """Path of every other file -> sha256 of its content, in hexadecimal digits."""


class Reason(Frozen):
    """Why a pack is refused, or what to know about it."""

    kind: Kind
    """What is wrong."""
    file: str
    """Path in the pack."""
    detail: str
    """What was expected and what was found, in words."""


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
    for name in sorted(files_of(root)):
        if name != MANIFEST:
            with (root / name).open("rb") as content:
                digests[name] = sha256(content)
    return digests


def files_of(root: Path) -> Iterator[str]:
    """Path below ``root`` of every file. Refused for a link, a pipe or a device."""
    for folder, folders, names in os.walk(root, followlinks=False):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode, place = path.lstat().st_mode, path.relative_to(root).as_posix()
            if not stat.S_ISDIR(mode):
                if not stat.S_ISREG(mode):
                    raise Refused(Reason(kind="unsafe_path", file=place, detail="is no regular file"))
                yield place


def archive(folder: Path, target: Path) -> None:
    """Write ``folder`` as ``target``: the same bytes for the same content, whoever packs it and when."""
    with contextlib.ExitStack() as files:
        raw = files.enter_context(target.open("xb"))
        packed = files.enter_context(gzip.GzipFile("", "wb", mtime=0, fileobj=raw))
        tar = files.enter_context(tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT))
        top = next(target.name.removesuffix(ending) for ending in ARCHIVES if target.name.endswith(ending))
        for name in sorted(files_of(folder)):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = (folder / name).stat().st_size
            with (folder / name).open("rb") as content:
                tar.addfile(entry, content)


def opened(pack: Path, folder: Path) -> Path:
    """The root of ``pack``: itself where it is a directory, else unpacked into the empty ``folder``.

    Refused for an archive that is damaged or too large, and for a member that is a link or lies outside.
    """
    if pack.is_dir():
        return pack
    try:
        with tarfile.open(pack, "r|gz") as tar:
            _unpack(tar, folder)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Refused(Reason(kind="unreadable", file=pack.name, detail=f"no archive of a pack: {error}")) from error
    roots = list(folder.iterdir())
    if len(roots) != 1 or not roots[0].is_dir():
        detail = f"a pack has one folder at the top, this archive {len(roots)}"
        raise Refused(Reason(kind="unreadable", file=pack.name, detail=detail))
    return roots[0]


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    left = MOST_BYTES
    for count, member in enumerate(tar, 1):
        left -= member.size
        if detail := _unsafe(member):
            raise Refused(Reason(kind="unsafe_path", file=member.name, detail=detail))
        if left < 0 or count > MOST_FILES:
            raise Refused(Reason(kind="unreadable", file=member.name, detail="the archive is too large"))
        path = folder / member.name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise Refused(Reason(kind="unsafe_path", file=member.name, detail="stands twice in the archive"))
        content = tar.extractfile(member)
        assert content is not None
        with path.open("xb") as file:
            while chunk := content.read(CHUNK):
                file.write(chunk)


def _unsafe(member: tarfile.TarInfo) -> str | None:
    """Why a member of an archive must not be unpacked; None where it may."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name:
        return "a path outside the pack"
    if not (member.isreg() or member.isdir()):
        return "is no regular file"
    return None


@dataclass
class Content:
    """The files of a pack whose hashes were compared."""

    root: Path
    manifest: Manifest
    digest: str
    """sha256 of the manifest, which stands for the whole pack."""


def checked_content(root: Path) -> Content:
    """The manifest of the pack at ``root``. Refused with every file that is missing, added or changed."""
    present = set(files_of(root))
    if MANIFEST not in present:
        raise Refused(Reason(kind="missing_file", file=MANIFEST, detail="a pack without a manifest"))
    try:
        text = (root / MANIFEST).read_bytes()
        manifest = Manifest.model_validate_json(text)
    except (ValueError, OSError) as error:
        first = str(error).splitlines()[0]
        raise Refused(Reason(kind="manifest", file=MANIFEST, detail=f"not what benchrun writes: {first}")) from error
    present.remove(MANIFEST)
    reasons = [Reason(kind="missing_file", file=name, detail="listed in the manifest, not in the pack")
               for name in sorted(manifest.files.keys() - present)]  # fmt: skip
    reasons += [Reason(kind="added_file", file=name, detail="in the pack, not listed in the manifest")
                for name in sorted(present - manifest.files.keys())]  # fmt: skip
    for name in sorted(present & manifest.files.keys()):
        with (root / name).open("rb") as content:
            if sha256(content) != manifest.files[name]:
                reasons.append(Reason(kind="changed_file", file=name, detail="its sha256 is not that of the manifest"))
    reasons += [reason for name in sorted(present) if name.endswith(XZ) and (reason := _expanding(root, name))]
    if reasons:
        raise Refused(*reasons)
    return Content(root, manifest, hashlib.sha256(text).hexdigest())


def _expanding(root: Path, name: str) -> Reason | None:
    """A reason against a compressed file that is damaged or would fill the memory."""
    size = 0
    try:
        with lzma.open(root / name) as content:
            while chunk := content.read(CHUNK):
                size += len(chunk)
                if size > MOST_BYTES // 8:
                    return Reason(kind="unreadable", file=name, detail=f"holds more than {size} bytes")
    except (lzma.LZMAError, EOFError, OSError) as error:
        return Reason(kind="unreadable", file=name, detail=str(error))
    return None
