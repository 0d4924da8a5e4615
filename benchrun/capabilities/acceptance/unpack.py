"""Reading an evidence pack that somebody else wrote, without trusting a name or a size
in it.
"""

import hashlib
import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchrun.rundir.artifacts import XZ

from .pack import (
    CHUNK,
    MANIFEST,
    Manifest,
    Reason,
    Refused,
    packed_files,
    sha256,
)

MOST_BYTES = 16 << 30
"""Most bytes of all files of a pack together, unpacked."""
MOST_LOG_BYTES = 1 << 30
"""Most bytes of one compressed file, which is unpacked in memory."""
MOST_FILES = 100_000


def opened(pack: Path, folder: Path) -> Path:
    """The root of ``pack``: itself if it is a directory, else unpacked into the empty
    ``folder``.

    Refused for an archive that is damaged or too large, and for a member that is a link
    or lies outside.
    """
    if pack.is_dir():
        return pack
    try:
        with tarfile.open(pack, "r|gz") as tar:
            _unpack(tar, folder)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Refused(Reason("unreadable", pack.name, f"no archive of a pack: {error}")) from error
    roots = list(folder.iterdir())
    if len(roots) != 1 or not roots[0].is_dir():
        detail = f"a pack has one folder at the top, this archive {len(roots)}"
        raise Refused(Reason("unreadable", pack.name, detail))
    return roots[0]


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    left = MOST_BYTES
    for count, member in enumerate(tar, 1):
        left -= member.size
        if detail := _unsafe(member):
            raise Refused(Reason("unsafe_path", member.name, detail))
        if left < 0 or count > MOST_FILES:
            raise Refused(Reason("unreadable", member.name, "the archive is too large"))
        path = folder / member.name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise Refused(Reason("unsafe_path", member.name, "stands twice in the archive"))
        content = tar.extractfile(member)
        assert content is not None
        with path.open("xb") as file:
            while chunk := content.read(CHUNK):
                file.write(chunk)


def _unsafe(member: tarfile.TarInfo) -> str | None:
    """Reason why a member of an archive must not be unpacked; None if it may."""
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
    """The manifest of the pack at ``root``. Refused with every file that is missing,
    added or changed.
    """
    present = set(packed_files(root))
    if MANIFEST not in present:
        raise Refused(Reason("missing_file", MANIFEST, "a pack without a manifest"))
    try:
        text = (root / MANIFEST).read_bytes()
        manifest = Manifest.model_validate_json(text)
    except (ValueError, OSError) as error:
        first = str(error).splitlines()[0]
        raise Refused(Reason("manifest", MANIFEST, f"not what benchrun writes: {first}")) from error
    present.remove(MANIFEST)
    reasons = [Reason("missing_file", name, "listed in the manifest, not in the pack")
               for name in sorted(manifest.files.keys() - present)]  # fmt: skip
    reasons += [Reason("added_file", name, "in the pack, not listed in the manifest")
                for name in sorted(present - manifest.files.keys())]  # fmt: skip
    for name in sorted(present & manifest.files.keys()):
        with (root / name).open("rb") as content:
            if sha256(content) != manifest.files[name]:
                reasons.append(
                    Reason("changed_file", name, "its sha256 is not that of the manifest")
                )
    for name in sorted(present):
        if name.endswith(XZ) and (reason := _expanding(root, name)):
            reasons.append(reason)
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
                if size > MOST_LOG_BYTES:
                    return Reason("unreadable", name, f"holds more than {size} bytes")
    except (lzma.LZMAError, EOFError, OSError) as error:
        return Reason("unreadable", name, str(error))
    return None
