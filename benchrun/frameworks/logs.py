"""The parser bound to the registered dialects: the way for all other rooms to read logs."""

from __future__ import annotations

from pathlib import Path

from benchrun.frameworks.dialects import DIALECTS, register_dialect
from benchrun.frameworks.dialects.worker import ended_at
from benchrun.parse import files
from benchrun.parse.reader import Reader
from benchrun.parse.records import Log

__all__ = ["DIALECTS", "Tail", "ended_at", "last_step", "parse_log", "parse_logs", "reader", "register_dialect"]


def reader(framework: str | None = None) -> Reader:
    """A reader of logs of any framework, or of one. UserError for a framework without a dialect."""
    return Reader(tuple(DIALECTS.values()), framework)


def parse_log(*paths: Path, framework: str | None = None) -> Log:
    """Read one run's log: a file, ``-`` for stdin, a directory, or several (of ranks, nodes, stdout and stderr).

    UserError for what cannot be read and for a framework without a dialect.
    """
    return files.parse_log(paths, lambda: reader(framework))


def parse_logs(*paths: Path, framework: str | None = None) -> tuple[list[Log], list[Path]]:
    """Read the logs of any number of runs: one Log per run, and the files of directories that are left out."""
    return files.parse_logs(paths, lambda: reader(framework))


def last_step(path: Path, near: int = 0) -> int | None:
    """The number of the last step in a log that may still grow; see ``files.last_step``."""
    return files.last_step(path, reader, near)


class Tail(files.Tail):
    """Reads a log that is still being written."""

    def __init__(self, path: Path, framework: str | None = None) -> None:
        super().__init__(path, reader(framework))
