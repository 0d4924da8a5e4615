"""The kept runs, for tests: `named` chooses some without unpacking any, `folder` unpacks one."""

from fnmatch import fnmatch
from pathlib import Path

from benchrun import kept, paths


def named(pattern: str = "*", file: str = kept.SPEC) -> list[Path]:
    """Paths that name the runs whose ids fit ``pattern`` and that have ``file``, in order."""
    entries = kept.entries(paths.MEASURED)
    return [paths.MEASURED / run for run in sorted(entries) if fnmatch(run, pattern) and file in entries[run]["files"]]


def folder(run: Path | str) -> Path:
    """The directory of the run with this id or path."""
    return kept.place(paths.MEASURED / run)


def first(pattern: str) -> Path:
    """The directory of the first run whose id fits."""
    return folder(named(pattern)[0])
