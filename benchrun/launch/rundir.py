"""The run directory; benchrun/spec/artifacts.py lists its files."""

from __future__ import annotations

import contextlib
import difflib
import errno
import functools
import json
import lzma
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchrun import paths
from benchrun.errors import UserError
from benchrun.frameworks.registry import framework
from benchrun.launch.documents import as_event, as_model, read_object, read_text
from benchrun.spec.artifacts import DONE, EVENTS, PROGRESS, SPEC, STDERR, STDOUT, TELEMETRY, WORKER, XZ, Done, Progress
from benchrun.spec.runspec import RunSpec


@dataclass(frozen=True)
class RunDir:
    """One run's files."""

    path: Path
    read_only: bool = field(default=False, compare=False)
    """It lies outside the runs folder, or belongs to another user."""

    @property
    def run_id(self) -> str:
        """The directory's name, and the job's name in the queue."""
        return self.path.name

    @functools.cached_property
    def spec(self) -> RunSpec:
        """What was launched."""
        path = self.path / SPEC
        if not path.is_file():
            raise UserError("is no file", where=str(path), hint=f"move {self.path} away")
        try:
            return RunSpec.read(path)
        except ValidationError as error:
            hint = f"it was written by another version, or changed by hand; move {self.path} away"
            raise UserError(f"not a RunSpec: {error.errors()[0]['msg']}", where=str(path), hint=hint) from None
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"cannot be read: {error}", where=str(path), hint=f"move {self.path} away") from None

    @property
    def owner(self) -> int | None:
        """The user id of the directory's owner; None where the directory has vanished."""
        try:
            return self.path.stat().st_uid
        except OSError:
            return None

    @property
    def writable(self) -> bool:
        """Whether files can be added: not to another user's run, nor on a read-only file system."""
        return not self.read_only and self.owner == os.geteuid() and os.access(self.path, os.W_OK)

    @property
    def logs(self) -> tuple[Path, ...]:
        """The existing ones of the job's stdout and stderr; compressed in a kept run."""
        names = [name + packed for name in (STDOUT, STDERR) for packed in ("", XZ)]
        return tuple(path for name in names if (path := self.path / name).is_file())

    def telemetry(self) -> dict[str, str]:
        """The CSV samples of each node's GPUs, by host."""
        files = sorted((self.path / TELEMETRY).glob("*.csv*"))
        return {file.name.partition(".csv")[0]: unpacked(file).decode(errors="replace") for file in files}

    def done(self) -> Done | None:
        """done.json; None where the job's EXIT trap did not run."""
        return as_model(self.read_json(DONE), Done)

    def progress(self) -> Progress | None:
        """progress.json; None before the watchdog's first look at the log."""
        return as_model(self.read_json(PROGRESS), Progress)

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first, without lines that are incomplete (a full disk)."""
        lines = (read_text(self.path / EVENTS) or "").splitlines()
        return [event for line in lines if (event := as_event(line)) is not None]

    def last_event(self, kind: str) -> dict[str, Any] | None:
        """The newest event of one kind."""
        return next((event for event in reversed(self.events()) if event["event"] == kind), None)

    @property
    def job_id(self) -> str | None:
        """The id that the scheduler gave, once it is recorded."""
        event = self.last_event("submitted")
        return event["job"] if event else None

    def append_event(self, kind: str, **facts: Any) -> None:
        """Add an event with the file system's time, in one write, because two processes may write at once."""
        with self._events(os.O_CREAT) as file:
            size = os.fstat(file).st_size
            cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a full disk took half of the last line
            line = json.dumps({"time": _utc(_touched(file)), "event": kind, **facts}) + "\n"
            data = (b"\n" if cut else b"") + line.encode()
            if os.write(file, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path / EVENTS))
            os.fsync(file)

    def clock(self) -> float | None:
        """Seconds since the epoch by the clock of this run's file system; None where it cannot be read.

        Clocks of hosts and file servers may differ by minutes, so only this one measures ages.
        """
        try:
            with self._events() as file:
                return _touched(file)
        except OSError:
            return None

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file; None where the file is missing or incomplete."""
        return read_object(self.path / name)

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        self.write_text(name, json.dumps(document, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a file of this run atomically; a link of that name is replaced, never followed."""
        temporary = f".{name}.{secrets.token_hex(4)}"
        with self._folder() as folder:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
            try:
                with os.fdopen(file, "w") as stream:
                    stream.write(text)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    @contextlib.contextmanager
    def _events(self, create: int = 0) -> Iterator[int]:
        """events.jsonl, open for appending; OSError where it is a link or missing."""
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | create
        with self._folder() as folder:
            file = os.open(EVENTS, flags, 0o644, dir_fd=folder)
            try:
                yield file
            finally:
                os.close(file)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[int]:
        """This directory, open; PermissionError where it is another user's, also for root."""
        if self.read_only:
            raise PermissionError(errno.EPERM, "the run is only read", str(self.path))
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "the run is another user's", str(self.path))
            yield folder
        finally:
            os.close(folder)


def unpacked(file: Path) -> bytes:
    """The bytes of a file, decompressed where its name ends in .xz."""
    try:
        return lzma.decompress(file.read_bytes()) if file.suffix == XZ else file.read_bytes()
    except lzma.LZMAError as error:
        raise UserError(f"cannot be unpacked: {error}", where=str(file)) from error


def _touched(file: int) -> float:
    """Touch an open file; its new time in seconds since the epoch, by the file system's clock."""
    os.utime(file)
    return os.fstat(file).st_mtime


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def create(root: Path, spec: RunSpec, files: Mapping[str, str]) -> RunDir:
    """Make a new run directory below ``root``, also for two launches at the same moment."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = _make(root, f"{spec.recipe}-{spec.identity()}-{stamp}")
        write_files(path, spec, files)
    except OSError as error:
        hint = "run from a directory you can write, or set BENCHRUN_RESULTS"
        raise UserError(f"cannot write {error.filename or root}: {error.strerror}", hint=hint) from error
    run = RunDir(path.resolve())
    run.append_event("created", recipe=spec.recipe, identity=spec.identity())
    return run


def write_files(path: Path, spec: RunSpec, files: Mapping[str, str]) -> None:
    """Write the files of a job into ``path``. UserError where one exists."""
    taken = [name for name in files if (path / name).exists()]
    if taken:
        raise UserError(f"{path / taken[0]} exists", hint="name an empty or new directory")
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
        if name.endswith(".sh"):
            (path / name).chmod(0o755)
    if framework(spec.framework).own_worker or spec.reads_files:
        # The run has its own copy of the worker: later edits do not reach it, and nodes need only the shared directory.
        ignore = shutil.ignore_patterns("__pycache__", "_data", "*.pyc")
        shutil.copytree(paths.PACKAGE, path / WORKER / "benchrun", ignore=ignore)
        if spec.reads_files:
            shutil.copytree(paths.DATAGEN, path / WORKER / "datagen", ignore=ignore)


def find_runs(root: Path) -> list[RunDir]:
    """All runs below ``root``, oldest first."""
    runs = [_opened(root, spec.parent) for spec in root.glob(f"*/{SPEC}")]
    return sorted(runs, key=lambda run: (_stamp(run), run.run_id))


def open_run(root: Path, name: str) -> RunDir:
    """The run called ``name``, or at the path ``name``. UserError lists close matches."""
    if not name:
        raise UserError("the name of a run is empty", hint="an unset variable? benchrun status lists the runs")
    for path in (root / name, Path(name)):
        if (path / SPEC).is_file():
            return _opened(root, path)
    ids = [run.run_id for run in find_runs(root)]
    close = [run_id for run_id in ids if run_id.startswith(name)]
    if len(close) == 1:
        return _opened(root, root / close[0])
    listing = (close or difflib.get_close_matches(name, ids, n=3, cutoff=0.3) or ids)[-5:]
    raise UserError(
        f"no run is called '{name}' in {root}",
        hint=f"runs here: {', '.join(listing)}" if listing else "there are no runs",
    )


def _opened(root: Path, path: Path) -> RunDir:
    """The run at ``path``, read-only where it is not directly in ``root`` or belongs to another user."""
    place = path.resolve()
    own = place.parent == root.resolve() and place.stat().st_uid == os.geteuid()
    return RunDir(place, read_only=not own)


def open_runs(root: Path, names: Iterable[str]) -> list[RunDir]:
    """Each run once, in the order of ``names``."""
    return list(dict.fromkeys(open_run(root, name) for name in names))


def _make(root: Path, name: str) -> Path:
    """A new directory ``name-XXXX``, random, so that jobs of two results folders have different names."""
    while True:
        path = root / f"{name}-{secrets.token_hex(2)}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path


def _stamp(run: RunDir) -> str:
    match = re.search(r"\d{8}T\d{6}Z", run.run_id)
    return match[0] if match else ""
