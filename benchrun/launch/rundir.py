"""The run directory: every step of the way leaves one file in it, and nothing is ever overwritten."""

from __future__ import annotations

import difflib
import functools
import json
import lzma
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchrun import paths
from benchrun.errors import UserError
from benchrun.recipe.spec import RunSpec

STDOUT, STDERR = "stdout.log", "stderr.log"
"""What the job prints; the scripts in templates/ name them too."""
TELEMETRY = "telemetry"
"""Where its nodes write what they sample."""
XZ = ".xz"
"""On the name of a file that is kept compressed."""
ENDING = "ending.json"
"""How it ended; once written it stands."""


@dataclass(frozen=True)
class RunDir:
    """One run's files."""

    path: Path
    read_only: bool = field(default=False, compare=False)
    """It was opened where it is not one's own: outside the runs folder, or another user's."""

    @property
    def run_id(self) -> str:
        """The directory's name, and the job's name in the queue."""
        return self.path.name

    @functools.cached_property
    def spec(self) -> RunSpec:
        """What was launched."""
        path = self.path / "spec.json"
        try:
            return RunSpec.read(path)
        except ValidationError as error:
            hint = f"it was written by another version, or changed by hand; move {self.path} away"
            raise UserError(f"not a RunSpec: {error.errors()[0]['msg']}", where=str(path), hint=hint) from None

    @property
    def writable(self) -> bool:
        """Whether files can be added: a colleague's run, or one on a file system mounted read-only, is only read."""
        return not self.read_only and os.access(self.path, os.W_OK)

    @property
    def logs(self) -> tuple[Path, ...]:
        """The job's stdout and stderr, those that exist; compressed in a run that was kept."""
        names = [name + packed for name in (STDOUT, STDERR) for packed in ("", XZ)]
        return tuple(path for name in names if (path := self.path / name).exists())

    def telemetry(self) -> dict[str, str]:
        """What each node sampled of its GPUs, by host."""
        files = sorted((self.path / TELEMETRY).glob("*.csv*"))
        return {file.name.partition(".csv")[0]: unpacked(file).decode(errors="replace") for file in files}

    def done(self) -> dict[str, Any] | None:
        """What the job's EXIT trap wrote, if it ran."""
        return self.read_json("done.json")

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first. A line cut by a full disk is left out."""
        try:
            lines = (self.path / "events.jsonl").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        return [event for line in lines if (event := _event(line)) is not None]

    def last_event(self, kind: str) -> dict[str, Any] | None:
        """The newest event of one kind."""
        return next((event for event in reversed(self.events()) if event["event"] == kind), None)

    def append_event(self, kind: str, **facts: Any) -> None:
        """Add an event; whole lines only, so that two processes may write at once."""
        line = json.dumps({"time": now(), "event": kind, **facts}) + "\n"
        descriptor = os.open(self.path / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file, or None where there is none (yet), or only the half of one."""
        try:
            document = json.loads((self.path / name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a JSON file so that a reader sees the old one or the new one, never half of it."""
        temporary = self.path / f".{name}.{os.getpid()}"
        temporary.write_text(json.dumps(document, indent=2) + "\n")
        temporary.replace(self.path / name)


def unpacked(file: Path) -> bytes:
    """The bytes of a file, which may be compressed."""
    try:
        return lzma.decompress(file.read_bytes()) if file.suffix == XZ else file.read_bytes()
    except lzma.LZMAError as error:
        raise UserError(f"cannot be unpacked: {error}", where=str(file)) from error


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def create(root: Path, spec: RunSpec, files: Mapping[str, str]) -> RunDir:
    """Make a new run directory below ``root``. Two launches at one moment make two."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    name = f"{spec.recipe}-{spec.identity()}-{stamp}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = _make(root, name)
        write_files(path, spec, files)
    except OSError as error:
        raise UserError(
            f"cannot write {error.filename or root}: {error.strerror}",
            hint="run from a directory you can write, or set BENCHRUN_RESULTS",
        ) from error
    run = RunDir(path.resolve())
    run.append_event("created", recipe=spec.recipe, identity=spec.identity())
    return run


def write_files(path: Path, spec: RunSpec, files: Mapping[str, str]) -> None:
    """Write what a job needs into ``path``; existing files are never touched."""
    taken = [name for name in files if (path / name).exists()]
    if taken:
        raise UserError(f"{path / taken[0]} exists", hint="name an empty or new directory")
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
        if name.endswith(".sh"):
            (path / name).chmod(0o755)
    if spec.own_worker or spec.data.kind == "synthetic":
        # The run carries the worker it ran: later edits do not reach it, and nodes need only the shared directory.
        ignore = shutil.ignore_patterns("__pycache__", "_data", "*.pyc")
        shutil.copytree(paths.PACKAGE, path / "worker" / "benchrun", ignore=ignore)
        if spec.data.kind == "synthetic":
            shutil.copytree(paths.DATAGEN, path / "worker" / "datagen", ignore=ignore)


def find_runs(root: Path) -> list[RunDir]:
    """All runs below ``root``, oldest first."""
    found = [_opened(root, spec.parent) for spec in root.glob("*/spec.json")]
    return sorted(found, key=lambda run: (_stamp(run), run.run_id))


def open_run(root: Path, name: str) -> RunDir:
    """The run called ``name``, or lying at the path ``name``. UserError lists close matches."""
    if not name:
        raise UserError("the name of a run is empty", hint="an unset variable? benchrun status lists the runs")
    for path in (root / name, Path(name)):
        if (path / "spec.json").is_file():
            return _opened(root, path)
    ids = [run.run_id for run in find_runs(root)]
    close = [run_id for run_id in ids if run_id.startswith(name)]
    if len(close) == 1:
        return _opened(root, root / close[0])
    listing = (close or difflib.get_close_matches(name, ids, n=3, cutoff=0.3) or ids)[-5:]
    raise UserError(f"no run is called '{name}' in {root}", hint=", ".join(listing) if listing else "there are no runs")


def _opened(root: Path, path: Path) -> RunDir:
    """The run at ``path``, to be read only where it does not lie in ``root`` or is another user's."""
    place = path.resolve()
    own = place.parent == root.resolve() and place.stat().st_uid == os.geteuid()
    return RunDir(place, read_only=not own)


def open_runs(root: Path, names: Iterable[str]) -> list[RunDir]:
    """Each run once, in the order of ``names``: a run is no repeat of itself."""
    return list(dict.fromkeys(open_run(root, name) for name in names))


def _make(root: Path, name: str) -> Path:
    attempt = 1
    while True:
        path = root / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            path.mkdir()
        except FileExistsError:
            attempt += 1
        else:
            return path


def _stamp(run: RunDir) -> str:
    match = re.search(r"\d{8}T\d{6}Z", run.run_id)
    return match[0] if match else ""


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
