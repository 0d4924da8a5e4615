"""The run directory; benchrun/rundir/artifacts.py lists its files."""

import contextlib
import errno
import functools
import json
import lzma
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchrun import clock
from benchrun.errors import UserError
from benchrun.runspec.spec import RunSpec

from .artifacts import (
    DONE,
    EVENTS,
    LINKS,
    SERVER_LOG,
    SPEC,
    STDERR,
    STDOUT,
    TELEMETRY,
    XZ,
    Done,
)
from .network import Network, read_network

M = TypeVar("M", bound=BaseModel)
LIMIT = 64 << 20
"""Bytes of a document that are read; a run's documents are far smaller."""
_LOGS = tuple(name + packed for name in (STDOUT, STDERR, SERVER_LOG) for packed in ("", XZ))
_FIELDS = {
    **dict.fromkeys(("submitted", "cancel_asked"), ("job",)),
    "refused": ("reason",),
    "state": ("state", "phase"),
}
"""Fields that are read: an event without them is ignored."""


@dataclass(frozen=True)
class RunDir:
    """One run's files."""

    path: Path
    read_only: bool = field(default=False, compare=False)
    """Whether the run lies outside the runs folder, or belongs to another user."""

    @property
    def run_id(self) -> str:
        """The directory's name, and the job's name in the queue."""
        return self.path.name

    @functools.cached_property
    def spec(self) -> RunSpec:
        """Specification that was launched. UserError if it cannot be read."""
        return RunSpec.read(self.path / SPEC)

    @property
    def owner(self) -> int | None:
        """The user id of the directory's owner; None if the directory has vanished."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_uid
        return None

    @property
    def writable(self) -> bool:
        """Whether files can be added: not to another user's run, nor on a read-only
        file system.
        """
        return not self.read_only and self.owner == os.geteuid() and os.access(self.path, os.W_OK)

    @property
    def logs(self) -> tuple[Path, ...]:
        """The existing ones of the job's stdout, its stderr and a server's log;
        compressed in a kept run.
        """
        present = []
        with contextlib.suppress(OSError):
            present = os.listdir(self.path)  # noqa: PTH208
        names = [name for name in _LOGS if name in present]
        return tuple(path for name in names if (path := self.path / name).is_file())

    def telemetry(self) -> dict[str, str]:
        """The CSV samples of each node's GPUs, by host."""
        files = sorted((self.path / TELEMETRY).glob("*.csv*"))
        found = {}
        for file in files:
            found[file.name.partition(".csv")[0]] = unpacked(file).decode(errors="replace")
        return found

    def network(self) -> Network | None:
        """The links of the ranks, by NCCL's own files, else by the logs; None if they say nothing."""
        files = sorted(path for path in (self.path / LINKS).glob("*") if path.is_file())
        return read_network(files or self.logs, self.spec.num_nodes)

    def document(self, name: str, model: type[M]) -> M | None:
        """A JSON file of this run as ``model``; None if there is none. UserError if it
        holds something else.
        """
        document = self.read_json(name)
        try:
            if document is None:
                return None
            return model.model_validate(document)
        except ValidationError as error:
            where = str(self.path / name)
            hint = "another version wrote it, or it is damaged; move it away"
            raise UserError(
                f"not what benchrun writes: {error.errors()[0]['msg']}", where=where, hint=hint
            ) from None

    def read(self, name: str, model: type[M]) -> M | None:
        """A JSON file of this run as ``model``; None if it is missing, damaged, or
        holds something else.
        """
        with contextlib.suppress(UserError):
            return self.document(name, model)
        return None

    def done(self) -> Done | None:
        """done.json; None if the job's EXIT trap did not run."""
        return self.read(DONE, Done)

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first, without lines that are incomplete (a full disk)."""
        lines = (read_text(f"{self.path}/{EVENTS}") or "").splitlines()
        found = []
        for line in lines:
            if (event := as_event(line)) is not None:
                found.append(event)
        return found

    def last_event(self, kind: str) -> dict[str, Any] | None:
        """The newest event of one kind."""
        return next((event for event in reversed(self.events()) if event["event"] == kind), None)

    @property
    def job_id(self) -> str | None:
        """The id that the scheduler gave, once it is recorded."""
        event = self.last_event("submitted")
        return event["job"] if event else None

    def time_of(self, kind: str) -> float | None:
        """Time of the newest event of one kind in seconds since the epoch; None if
        there is none.
        """
        with contextlib.suppress(ValueError, OverflowError):
            event = self.last_event(kind)
            if not event:
                return None
            return _epoch(event["time"])
        return None

    @property
    def created(self) -> float | None:
        """Seconds since the epoch at which the run was created: by its event, else by
        its files (a killed launcher).

        None if the directory has vanished.
        """
        with contextlib.suppress(OSError):
            return self.time_of("created") or (self.path / SPEC).stat().st_mtime
        return None

    def append_event(self, kind: str, **facts: Any) -> None:
        """Add an event with the file system's time, in one write, because two processes
        may write at once.
        """
        with self._events(os.O_CREAT) as file:
            size = os.fstat(file).st_size
            # A full disk took half of the last line.
            cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            now = datetime.fromtimestamp(clock.touched(file), timezone.utc).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
            line = json.dumps({"time": now, "event": kind, **facts}) + "\n"
            data = (b"\n" if cut else b"") + line.encode()
            if os.write(file, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path / EVENTS))
            os.fsync(file)

    def clock(self) -> float | None:
        """Seconds since the epoch by the clock of this run's file system; None if it
        cannot be read.

        Clocks of hosts and file servers may differ by minutes, so only this one
        measures ages.
        """
        with contextlib.suppress(OSError), self._events() as file:
            return clock.touched(file)
        return None

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file; None if the file is missing or incomplete."""
        return as_object(read_text(f"{self.path}/{name}"))

    def write_json(self, name: str, document: Mapping[str, Any], *, first: bool = False) -> None:
        """Write a JSON file as `write_text` does."""
        self.write_text(name, json.dumps(document, indent=2) + "\n", first=first)

    def write_text(self, name: str, text: str, *, first: bool = False) -> None:
        """Write a file of this run atomically; a link of that name is replaced, never
        followed.

        With ``first`` nothing is replaced: FileExistsError if another process was
        faster.
        """
        temporary = f".{name}.{secrets.token_hex(4)}"
        with self._folder() as folder, contextlib.ExitStack() as undo:
            file = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW,
                0o666,
                dir_fd=folder,
            )
            undo.callback(os.unlink, temporary, dir_fd=folder)
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                stream.write(text)
            if first:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                return
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            undo.pop_all()

    @contextlib.contextmanager
    def _events(self, create: int = 0) -> Iterator[int]:
        """events.jsonl, open for appending; OSError if it is a link or missing."""
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | create
        with (
            self._folder() as folder,
            os.fdopen(os.open(EVENTS, flags, 0o644, dir_fd=folder), "r+b", 0) as file,
        ):
            yield file.fileno()

    @contextlib.contextmanager
    def _folder(self) -> Iterator[int]:
        """This directory, open; PermissionError if it is another user's, also for root."""
        if self.read_only:
            raise PermissionError(errno.EPERM, "the run is only read", str(self.path))
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "the run is another user's", str(self.path))
            yield folder
        finally:
            os.close(folder)


@dataclass(frozen=True)
class TolerantRun(RunDir):
    """A run whose damaged documents are left out and noted, for readers that need none
    of them.
    """

    damaged: dict[str, str] = field(default_factory=dict, compare=False)
    """Name of each file that was left out -> why."""

    def document(self, name: str, model: type[M]) -> M | None:
        """Read a document as of any run, but return None if it is damaged."""
        try:
            document = super().document(name, model)
        except UserError as error:
            self.damaged[name] = error.message
            return None
        if document is None and os.path.lexists(self.path / name):
            self.damaged[name] = "no complete JSON object"
        return document


@functools.lru_cache
def _epoch(text: str) -> float:
    """The time of an event in seconds since the epoch; ValueError or OverflowError if
    it is none.
    """
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()


def read_text(path: Path | str, limit: int = LIMIT) -> str | None:
    """The first ``limit`` bytes of a file; None if it is missing or no regular file (a
    directory, a pipe).
    """
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(path)  # noqa: PTH116
        if stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:  # noqa: PTH123  # a read reserves as much memory as it is told
                return file.read(min(limit, found.st_size + 1)).decode(errors="replace")
    return None


def as_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in ``text``; None if it holds none."""
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(text) if text else None
        if isinstance(document, dict):
            return document
        return None
    return None


def as_event(line: str) -> dict[str, Any] | None:
    """The event in a line of events.jsonl; None if it holds none."""
    event = as_object(line) or {}
    needed = ("time", "event", *_FIELDS.get(str(event.get("event")), ()))
    if all(isinstance(event.get(field), str) for field in needed):
        return event
    return None


def unpacked(file: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .xz."""
    try:
        if file.suffix == XZ:
            return lzma.decompress(file.read_bytes())
        return file.read_bytes()
    except lzma.LZMAError as error:
        raise UserError(f"cannot be unpacked: {error}", where=file) from error
