"""Files that are whole or not there: written under another name, resumed if interrupted, renamed at the end.

A data set at PREFIX is whole when its manifest ``PREFIX.json`` is there: that is renamed last. Until then everything is
called ``*.partial``, and ``PREFIX.journal`` lists the parts that are done. One process at a time works on a prefix; the
others wait for the lock and find it made.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchrun.errors import MachineError, UserError
from datagen import __version__
from datagen.manifest import File, Manifest, describe, load, missing

PARTIAL = ".partial"
_NO_PLACE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
}
RESERVE = 1 << 20
"""Bytes that must stay free beside the data: journal, manifest, and what an index has more than its documents."""


def beside(prefix: Path, suffix: str) -> Path:
    """``prefix`` with ``suffix`` behind it, whatever dots are in its name."""
    return prefix.with_name(prefix.name + suffix)


def partial(path: Path) -> Path:
    """The name of ``path`` until it is whole."""
    return beside(path, PARTIAL)


@contextmanager
def machine_errors(prefix: Path) -> Iterator[None]:
    """What the file system refuses, as one clear error: a full disk is the machine's, a wrong folder the user's."""
    try:
        yield
    except OSError as error:
        again = "the same command goes on from where it stopped"
        where = str(error.filename or prefix)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            hint = f"make room and {again}, or remove {beside(prefix, '.journal')} and its *{PARTIAL}"
            raise MachineError(f"cannot write: {error.strerror}", where=where, hint=hint) from error
        if error.errno in _NO_PLACE:
            hint = "--output is a folder you may write to, and a name"
            raise UserError(f"cannot write: {error.strerror}", where=where, hint=hint) from error
        hint = f"when the machine is well again, {again}"
        raise MachineError(f"cannot write: {error.strerror}", where=where, hint=hint) from error


@contextmanager
def locked(prefix: Path) -> Iterator[None]:
    """Alone with ``prefix``, on whatever node of a shared file system the others are.

    Without a lock where none can be had beside a data set that is whole: another user's, or on a read-only file system.
    """
    path = beside(prefix, ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError:
        if not beside(prefix, ".json").exists():
            raise
        yield
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"{prefix}: another process is making it; waiting\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            # Two makers would write the same bytes to the same places; but the first to end renames the other's files.
            sys.stderr.write(f"{path}: this file system has no locks; let nothing else make it at the same time\n")
        yield


def made(prefix: Path, kind: str, parameters: Mapping[str, Any]) -> Manifest | None:
    """The manifest of the whole data set at ``prefix``; None if there is none yet.

    UserError if something else is there, which is never overwritten.
    """
    path = beside(prefix, ".json")
    if not path.exists():
        return None
    there = load(path)
    if there.kind != kind or there.version != __version__ or there.parameters != dict(parameters):
        ours = {"kind": kind, "version": __version__, **parameters}
        theirs = {"kind": there.kind, "version": there.version, **there.parameters}
        # Parameters of another kind have other names.
        names = {*ours, *theirs} if there.kind == kind else {"kind"}
        keys = sorted(key for key in names if ours.get(key) != theirs.get(key))
        differ = ", ".join(f"{key} {theirs.get(key)} instead of {ours.get(key)}" for key in keys)
        hint = f"choose another --output, or remove {path} and what it lists"
        raise UserError(f"another data set: {differ}", where=str(path), hint=hint)
    if fault := missing(there, path.parent):
        raise UserError(
            f"damaged: {fault}", where=str(path), hint=f"remove {path} and what it lists, then make it again"
        )
    return there


class Journal:
    """The parts of a data set that are written, so that an interrupted process is resumed.

    A part is any name and a checksum. The caller checks what is on the disk against the checksum: a part of which the
    machine lost something is made again.
    """

    def __init__(self, prefix: Path, kind: str, parameters: Mapping[str, Any], outputs: list[Path]) -> None:
        self.done: dict[str, int] = {}
        self._path = beside(prefix, ".journal")
        head = json.dumps({"kind": kind, "version": __version__, **parameters}, sort_keys=True)
        lines = self._path.read_bytes().split(b"\n")[:-1] if self._path.exists() else []
        if lines and lines[0] != head.encode():
            hint = "choose another --output, repeat the parameters in it, or remove it to begin anew"
            raise UserError("an unfinished data set with other parameters", where=str(self._path), hint=hint)
        # Renamed by a process that ended before the last rename: then its other name is free.
        renamed = bool(lines) and partial(beside(prefix, ".json")).exists()
        for path in (*outputs, beside(prefix, ".json")):
            # A link to what cannot be reached now is there, too.
            if os.path.lexists(path) and (not renamed or partial(path).exists()):
                hint = "choose another --output, or move it away"
                raise UserError("is there already, without a manifest", where=str(path), hint=hint)
        if not lines:
            for path in outputs:  # left by a process whose journal is lost: perhaps of another size
                partial(path).unlink(missing_ok=True)
            self._path.write_text(head + "\n")
        for line in lines[1:]:
            with suppress(ValueError):  # what a full disk left of a line
                name, crc = line.decode().rsplit(" ", 1)
                self.done[name] = int(crc, 16)
        for path in outputs:
            if path.exists():
                path.rename(partial(path))
        self._file = self._path.open("r+")
        self._file.truncate(sum(len(line) + 1 for line in lines) or len(head) + 1)
        self._file.seek(0, os.SEEK_END)

    def add(self, name: str, crc: int) -> None:
        """This part is written."""
        self._file.write(f"{name} {crc:08x}\n")
        self._file.flush()

    def end(self) -> None:
        """Everything is whole and has its name."""
        self._file.close()
        self._path.unlink()


def room_for(prefix: Path, needed: int) -> None:
    """MachineError if ``needed`` bytes more do not fit beside ``prefix``."""
    free = shutil.disk_usage(prefix.parent).free
    if needed + RESERVE > free:
        message = f"{needed / 1e9:.2f} GB do not fit: {free / 1e9:.2f} GB are free"
        raise MachineError(message, where=str(prefix.parent), hint="make less, or choose another --output")


def finish(prefix: Path, manifest: Manifest) -> None:
    """Bring everything to the disk, give the files their names, the manifest last."""
    folder = prefix.parent
    for file in manifest.files:
        _sync(partial(folder / file.name))
    path = beside(prefix, ".json")
    partial(path).write_text(manifest.model_dump_json(indent=1) + "\n")
    _sync(partial(path))
    for file in manifest.files:
        partial(folder / file.name).rename(folder / file.name)
    partial(path).rename(path)
    _sync(folder)


def file_of(path: Path, crc32: list[int] | None = None) -> File:
    """The manifest's entry of the file that will be ``path``; it is read unless its checksums are known."""
    if crc32 is None:
        return describe(partial(path)).model_copy(update={"name": path.name})
    return File(name=path.name, bytes=partial(path).stat().st_size, crc32=tuple(f"{crc:08x}" for crc in crc32))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
