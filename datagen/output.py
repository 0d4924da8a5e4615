"""Atomic output: a data set is complete or absent, interrupted commands resume, and
nothing is overwritten.

A data set at PREFIX is complete when its manifest ``PREFIX.json`` exists: the manifest
is renamed last. It contains the parameters, facts about the content, and the checksums
of the files. Until then all files are called ``*.partial``, and ``PREFIX.journal``
lists the finished parts. One process at a time works on a prefix; the others wait for
the lock and then find the finished data set.
"""

import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchrun.errors import BenchrunError, MachineError, UserError
from datagen import __version__

_WRONG_PLACE = (
    PermissionError,
    FileNotFoundError,
    FileExistsError,
    NotADirectoryError,
    IsADirectoryError,
)
PART_BYTES = 1 << 26
"""Bytes per checksum: 10 GB have 150 parts, which several processes can make side by
side."""

Progress = Callable[[int, int], None]
"""Called with the bytes done so far and the bytes in total."""
Kind = Literal["tokens", "sft", "tokenizer"]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
Lengths = Literal["fixed", "lognormal", "zipf"]


class Frozen(BaseModel):
    """Base of all models: immutable, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class File(Frozen):
    """One file of a data set."""

    name: str
    """Path relative to the manifest."""
    bytes: int
    crc32: tuple[str, ...]
    """CRC-32 of each part of ``part_bytes``, as eight hex digits."""


class Manifest(Frozen):
    """Content of ``PREFIX.json``."""

    schema_version: Literal[1] = 1
    kind: Kind
    version: str
    """Version of the generator: the same version and parameters give the same bytes."""
    parameters: dict[str, Any]
    facts: dict[str, Any]
    """Properties of the result: documents, tokens, dtype and so on."""
    part_bytes: int = Field(default_factory=lambda: PART_BYTES)
    files: tuple[File, ...]


def load(path: Path) -> Manifest:
    """The manifest in ``path``. UserError if the file is missing or not a manifest."""
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"no manifest: {error.strerror}", where=path) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        hint = "datagen writes its manifest under this name: give another PREFIX, or move this file away"
        raise UserError(
            f"not a manifest of datagen: {place}: {first['msg']}", where=path, hint=hint
        ) from error


def checksums(path: Path, part_bytes: int) -> tuple[str, ...]:
    """CRC-32 of each part of a file, as eight hex digits; reads the whole file."""
    with path.open("rb") as file:
        return tuple(f"{crc32(part):08x}" for part in iter(lambda: file.read(part_bytes), b""))


def damage(manifest: Manifest, folder: Path, *, read: bool = True) -> str | None:
    """The first difference between ``manifest`` and its files, None if there is none;
    without ``read``, of sizes."""
    for file in manifest.files:
        path = folder / file.name
        if not path.is_file():
            return f"{path} is missing"
        size = path.stat().st_size
        if size != file.bytes:
            return f"{path} has {size} bytes, its manifest has {file.bytes}"
        sums = checksums(path, manifest.part_bytes) if read else file.crc32
        for number, (actual, expected) in enumerate(zip_longest(sums, file.crc32)):
            if actual != expected:
                return f"{path}: wrong checksum in the part that starts at byte {number * manifest.part_bytes}"
    return None


def beside(prefix: Path, suffix: str) -> Path:
    """``prefix`` with ``suffix`` appended; dots in the name of ``prefix`` do not
    matter."""
    return prefix.with_name(prefix.name + suffix)


def partial(path: Path) -> Path:
    """The name of ``path`` until its data set is complete."""
    return beside(path, ".partial")


def make_once(
    prefix: Path,
    kind: Kind,
    parameters: Frozen,
    outputs: list[Path],
    make: "Callable[[Journal], dict[str, Any]]",
    *,
    size: int = 0,
    fixed: dict[str, Any] | None = None,
) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether ``make`` had to make it.

    ``make`` writes the partial name of each of ``outputs``, about ``size`` bytes in
    total, and returns the facts of the manifest. ``fixed`` holds facts that are known
    in advance and must agree like parameters. UserError if ``prefix`` holds other data;
    MachineError if the data do not fit or cannot be written.
    """
    path = beside(prefix, ".json")
    values = parameters.model_dump(mode="json")
    new = False
    identity = {"kind": kind, "version": __version__, **values, **(fixed or {})}
    try:
        if not path.exists():
            with _locked(prefix):
                new = not path.exists()  # another process may have made it while this one waited
                if new:
                    journal = Journal(prefix, identity, outputs, size)
                    facts = make(journal)
                    files = tuple(_entry(output, journal.sums.get(output)) for output in outputs)
                    made = Manifest(
                        kind=kind, version=__version__, parameters=values, facts=facts, files=files
                    )
                    partial(path).write_text(
                        made.model_dump_json(indent=1) + "\n", encoding="utf-8"
                    )
                    _rename([*outputs, path])
        manifest = _complete(path, identity)
    except OSError as error:
        raise _expected(error, prefix) from error
    # A process that was killed after its last rename left it; the folder may be read-only.
    with suppress(OSError):
        beside(prefix, ".journal").unlink()
    return manifest, new


def _expected(error: OSError, prefix: Path) -> BenchrunError:
    """A MachineError for a full or failing disk, a UserError for a wrong folder."""
    message = f"cannot write: {error.strerror}"
    where = str(error.filename or prefix)
    if isinstance(error, _WRONG_PLACE) or error.errno in (errno.EROFS, errno.ENAMETOOLONG):
        return UserError(
            message, where=where, hint="--output is a name in a folder that you may write to"
        )
    left = f"{beside(prefix, '.journal')} and *.partial"
    hint = f"repeat the command when the disk works and has room: it resumes. Or remove {left}"
    return MachineError(message, where=where, hint=hint)


@contextmanager
def _locked(prefix: Path) -> Iterator[None]:
    """Hold the lock of ``prefix``, which also excludes processes on other nodes of a
    shared file system."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with beside(prefix, ".lock").open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"{prefix}: another process is making it; waiting\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            # Two processes would write equal bytes, but the first to finish would
            # rename the other's files.
            sys.stderr.write(
                f"{file.name}: this file system has no locks; run only one process per data set\n"
            )
        yield


def _complete(path: Path, identity: dict[str, Any]) -> Manifest:
    """The manifest in ``path``. UserError if it is that of another data set, or if its
    files are damaged."""
    manifest = load(path)
    present = {
        **manifest.facts,
        **manifest.parameters,
        "kind": manifest.kind,
        "version": manifest.version,
    }
    if manifest.kind != identity["kind"]:  # other kinds have other parameters
        identity = {"kind": identity["kind"]}
    differences = []
    for name in sorted(identity):
        if present.get(name) != identity[name]:
            differences.append(f"{name} {present.get(name)} instead of {identity[name]}")
    hint = f"choose another --output, or remove {path} and its files"
    if differences:
        fault = f"another data set: {', '.join(differences)}"
        raise UserError(fault, where=path, hint=hint)
    difference = damage(manifest, path.parent, read=False)
    if difference:
        raise UserError(f"damaged: {difference}", where=path, hint=hint)
    return manifest


class Journal:
    """The finished parts of a data set, each a name and a checksum, so that an
    interrupted command resumes.

    The caller compares the data on the disk with the checksum, and makes a part again
    if the machine lost some of it.
    """

    def __init__(
        self, prefix: Path, identity: dict[str, Any], outputs: list[Path], size: int
    ) -> None:
        self.done: dict[str, int] = {}
        self.sums: dict[Path, list[int]] = {}
        """CRC-32 of each part of ``PART_BYTES`` of an output; other outputs are read
        when they are complete."""
        self._path = beside(prefix, ".journal")
        head = json.dumps(identity, sort_keys=True)
        lines = self._path.read_bytes().split(b"\n")[:-1] if self._path.exists() else []
        if lines and lines[0] != head.encode():
            hint = "choose another --output, repeat the parameters in this file, or remove it to start again"
            raise UserError(
                "an unfinished data set with other parameters", where=self._path, hint=hint
            )
        manifest = beside(prefix, ".json")
        # The last process may have ended between its renames: then a file with its
        # final name has no partial one.
        renamed = bool(lines) and partial(manifest).exists()
        for path in (*outputs, manifest):
            # lexists: a link to a place that is not mounted counts, too.
            if os.path.lexists(path) and (not renamed or partial(path).exists()):
                hint = "choose another --output, or move it away"
                raise UserError("exists already, without a manifest", where=path, hint=hint)
        for path in outputs:
            if not lines:  # left by a process without a journal: the size may differ
                partial(path).unlink(missing_ok=True)
            elif path.exists():
                path.rename(partial(path))
        for line in lines[1:]:
            # A full disk may have cut a line, to which the next one is then appended.
            with suppress(ValueError):
                name, crc = line.decode().rsplit(" ", 1)
                self.done[name] = int(crc, 16)
        if not lines:  # the files of an interrupted process have room
            free = shutil.disk_usage(prefix.parent).free
            if size > free:
                message = f"{size / 1e9:.2f} GB do not fit: {free / 1e9:.2f} GB are free"
                raise MachineError(
                    message,
                    where=prefix.parent,
                    hint="make less data, or choose another --output",
                )
            self._path.write_text(f"{head}\n", encoding="utf-8")

    def add(self, name: str, crc: int) -> None:
        """Record that this part is written."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{name} {crc:08x}\n")


def _entry(path: Path, sums: list[int] | None) -> File:
    """The manifest's entry for ``path``, which still has its partial name; without
    ``sums`` it is read."""
    data = partial(path)
    parts = checksums(data, PART_BYTES) if sums is None else tuple(f"{crc:08x}" for crc in sums)
    return File(name=path.name, bytes=data.stat().st_size, crc32=parts)


def _rename(paths: list[Path]) -> None:
    """Sync the partial files to the disk, then give them their final names in this
    order."""
    for path in paths:
        _sync(partial(path))
    for path in paths:
        partial(path).rename(path)
    _sync(paths[-1].parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)  # not open(): a folder is synced too
    os.fsync(descriptor)
    os.close(descriptor)
