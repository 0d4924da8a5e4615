"""Runs that were packed: a folder holds `index.jsonl`, a line a run, and archives of
the runs' files.

`results/measured` is such a folder. A run in it is named by a path as if it had a
directory there, `FOLDER/RUN_ID`. `place` unpacks it where files are needed; `read`
takes one document out of its archive without that. The traces of a run, which no
archive would make smaller, lie beside the archives in `traces/RUN_ID`.
"""

import functools
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchrun import paths
from benchrun.errors import UserError, reading, writing

if TYPE_CHECKING:
    import tempfile

INDEX = "index.jsonl"
ENDING = ".tar.xz"
SPEC = "spec.json"
TRACES = "traces"
PROFILE = "profile/"
"""Begins the names of a run's traces."""
DEPTH = 3
"""A file of a run lies at most so deep in its directory."""
HINT = "get the folder again from where it came from, e.g. git checkout"
_RUN_ID = re.compile(r"\w[\w.+-]*", re.ASCII)
_FILE = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)?", re.ASCII)
_unpacked: dict[str, str] = {}
"""Temporary directory of each unpacked run -> the path that names the run."""

Entry = Mapping[str, Any]
"""A line of the index."""


def entries(folder: Path) -> Mapping[str, Entry]:
    """The packed runs of ``folder`` by id; none if it has no index. UserError for a
    damaged index.
    """
    file = folder / INDEX
    with reading(file):
        try:
            found = os.stat(file)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
    return _index(folder.absolute(), found.st_ino, found.st_mtime_ns, found.st_size)


def place(path: Path) -> Path:
    """Path of the file or directory that ``path`` names; a packed run is unpacked for
    it.

    ``path`` may be the id of one of benchrun's own kept runs. A path of which nothing
    is known is returned as it is.
    """
    if os.path.lexists(path):
        return path
    parts = path.parts
    if len(parts) == 1 and parts[0] in entries(paths.MEASURED):
        return _directory(paths.MEASURED, parts[0], path)
    for folder in list(path.parents)[:DEPTH]:
        run_id, *rest = path.relative_to(folder).parts
        if run_id in entries(folder):
            return _directory(folder, run_id, folder / run_id).joinpath(*rest)
    return path


def is_packed(folder: Path) -> bool:
    """Whether new runs are packed in ``folder``, because it has an index."""
    return (folder / INDEX).is_file()


def files_of(run: Path) -> dict[str, bytes]:
    """The files in the directory of a run, by name."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in files}


def runs(folder: Path) -> list[Path]:
    """Paths that name the runs in ``folder``, those in directories and the packed ones,
    in the order of their names.
    """
    present = {spec.parent.name for spec in folder.glob(f"[!.]*/{SPEC}")} | set(entries(folder))
    return [folder / run_id for run_id in sorted(present)]


def read(path: Path) -> bytes | None:
    """The content of a document of a run, packed or not; None if the run has no such
    document.
    """
    run = path.parent
    entry = entries(run.parent).get(run.name)
    if entry is None or run.is_dir():
        if not path.is_file():
            return None
        return path.read_bytes()
    if path.name not in entry["files"]:
        return None
    return _content(run.parent, entry, path.name)


def shown(text: str) -> str:
    """``text`` with the names of packed runs in place of the temporary directories that
    hold them.
    """
    for directory, name in _unpacked.items():
        text = text.replace(directory, name)
    return text


def add(folder: Path, entry: Entry, files: Mapping[str, bytes]) -> None:
    """Add a run to the packed ones of ``folder``; ``entry`` is its line of the index
    without archive and files.

    UserError if a run of this id is there. Whoever reads meanwhile finds the folder as
    it was.
    """
    run_id = entry["id"]
    archive = f"{entry['recipe']}{ENDING}"
    with writing(folder), _locked(folder / INDEX):
        known = dict(entries(folder))
        if run_id in known or (folder / run_id).exists():
            raise UserError(f"{folder / run_id} exists", hint="a measurement is never overwritten")
        members = {f"{run_id}/{name}": content for name, content in files.items()}
        if (folder / archive).exists():
            members = _members(folder / archive) | members
        _replace(folder / archive, archived(members))
        known[run_id] = {"id": run_id, "archive": archive, **entry, "files": sorted(files)}
        _replace(folder / INDEX, index_text(known).encode())


def index_text(known: Mapping[str, Entry]) -> str:
    """The text of an index."""
    import json  # `benchrun --help` imports this module

    return "".join(json.dumps(known[run_id]) + "\n" for run_id in sorted(known))


def archived(files: Mapping[str, bytes]) -> bytes:
    """An archive of ``files``, the same for the same files on every day.

    Files of one name stand together, because they have most in common.
    """
    import lzma
    import tarfile

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files, key=lambda name: name.partition("/")[::-1]):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            archive.addfile(member, io.BytesIO(files[name]))
    return lzma.compress(content.getvalue())


@functools.lru_cache
def _index(folder: Path, *state: int) -> dict[str, Entry]:
    """The lines of an index; ``state`` is the file's, so that one that was written anew
    is read anew.
    """
    import json

    known = {}
    file = folder / INDEX
    with reading(file):
        lines = file.read_bytes().decode(errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        why = "no kept run"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            entry = None
            why = f"no JSON: {error}"
        if not _is_entry(entry) or entry["id"] in known:
            raise UserError(
                f"not an index of kept runs: {why}", where=f"{file}:{number}", hint=HINT
            )
        known[entry["id"]] = entry
    return known


def _is_entry(entry: object) -> bool:
    """Whether a line of an index names a run, its archive and its files, all inside the
    folder.
    """
    if not isinstance(entry, dict):
        return False
    run_id, archive, files = entry.get("id"), entry.get("archive"), entry.get("files")
    if not (isinstance(run_id, str) and isinstance(archive, str) and isinstance(files, list)):
        return False
    named = all(isinstance(file, str) and _FILE.fullmatch(file) for file in files)
    return named and bool(_RUN_ID.fullmatch(run_id) and _RUN_ID.fullmatch(archive))


def _members(file: Path) -> dict[str, bytes]:
    """Every file in an archive by name, as this process has read it already."""
    with reading(file):
        found = os.stat(file)  # noqa: PTH116
    return _archive(file.absolute(), found.st_ino, found.st_mtime_ns, found.st_size)


@functools.lru_cache
def _archive(file: Path, *state: int) -> dict[str, bytes]:
    import lzma
    import tarfile

    found = {}
    try:
        with tarfile.open(file, "r|xz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is None or "/" not in member.name:
                    raise ValueError(f"{member.name} is no file of a run")
                found[member.name] = content.read()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=file, hint=HINT) from error
    except (lzma.LZMAError, tarfile.TarError, EOFError, ValueError) as error:
        raise UserError(f"not an archive of kept runs: {error}", where=file, hint=HINT) from error
    return found


def _content(folder: Path, entry: Entry, name: str) -> bytes:
    """A file of a packed run."""
    if name.startswith(PROFILE):
        trace: Path = folder / TRACES / entry["id"] / name.removeprefix(PROFILE)
        with reading(trace):
            return trace.read_bytes()
    archive = folder / entry["archive"]
    content = _members(archive).get(f"{entry['id']}/{name}")
    if content is None:
        raise UserError(f"holds no {name}, which {INDEX} names", where=archive, hint=HINT)
    return content


def _directory(folder: Path, run_id: str, name: Path) -> Path:
    """The temporary directory that holds the packed run ``run_id``, whose ``name``
    messages show.
    """
    directory = _unpack(folder.absolute(), run_id)
    _unpacked[str(directory)] = str(name)
    return directory


@functools.cache
def _unpack(folder: Path, run_id: str) -> Path:
    import tempfile

    entry = entries(folder)[run_id]
    directory = Path(tempfile.mkdtemp(dir=_temporary().name)) / run_id
    for name in entry["files"]:
        file = directory / name
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(_content(folder, entry, name))
    return directory


@functools.cache
def _temporary() -> "tempfile.TemporaryDirectory[str]":
    """A directory that vanishes with the process."""
    import tempfile

    return tempfile.TemporaryDirectory(prefix="benchrun-")


def _replace(file: Path, content: bytes) -> None:
    """Write ``file`` whole or not at all."""
    import secrets

    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Lock ``file`` for this process alone; others may replace it while it waits."""
    while True:
        with file.open("r+b") as stream:
            _wait(stream)
            if os.path.samestat(os.fstat(stream.fileno()), file.stat()):
                yield
                return


def _wait(stream: IO[bytes]) -> None:
    import fcntl

    fcntl.flock(stream, fcntl.LOCK_EX)
