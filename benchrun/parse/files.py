"""Files -> Logs: one run's log, or the logs of any number of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchrun.errors import UserError
from benchrun.parse.grouping import Part, grouped
from benchrun.parse.inputs import STDIN, Truncated, chunks, logs_in, unpacked_name
from benchrun.parse.reader import Reader
from benchrun.parse.records import Log

NAMED = 4
"""Paths that the name of a run lists."""
NewReader = Callable[[], Reader]


def parse_log(paths: Sequence[Path], new_reader: NewReader) -> Log:
    """Read one run's log, from all its files."""
    return _read([log.file for log in logs_in(paths)], new_reader).log(_name(paths))


def parse_logs(paths: Sequence[Path], new_reader: NewReader) -> tuple[list[Log], list[Path]]:
    """Read the logs of any number of runs: one Log a run, and the files of directories that are left out.

    The logs of a run directory are one run; ``grouping`` says which others are.
    """
    sources = logs_in(paths)
    if len(sources) == 1 or {source.run for source in sources} == {paths[0]}:
        return [parse_log(paths, new_reader)], []
    runs: dict[Path, list[Path]] = {}
    parts = []
    for source in sources:
        if source.run is not None:
            runs.setdefault(source.run, []).append(source.file)
        else:
            reader = _read([source.file], new_reader)
            parts.append(Part(source, reader.log(_name([source.file])), reader.stated()))
    if not runs and not any(len(part.log.steps) for part in parts):
        return [_log_of(parts, _name(paths), new_reader)], []
    groups, left_out = grouped(parts)
    alone = len(groups) + len(runs) == 1
    logs = [_log_of(group, _name(paths) if alone else None, new_reader) for group in groups]
    logs += [_read(files, new_reader).log(_name(paths) if alone else str(run)) for run, files in runs.items()]
    return logs, [part.source.file for part in left_out]


def _log_of(parts: list[Part], name: str | None, new_reader: NewReader) -> Log:
    """One run's log. Files of one run are read again, together: what one of them states holds for the steps of all."""
    files = [part.source.file for part in parts]
    name = name or _name(files)
    if len(parts) == 1:
        return replace(parts[0].log, file=name)
    if not all(file.is_file() for file in files):
        raise UserError("a pipe can be read once only", where=name, hint="write it to a file first")
    return _read(files, new_reader).log(name)


def _name(paths: Sequence[Path]) -> str:
    """What a run is called: its paths, of many the first."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join("stdin" if path == STDIN else str(path) for path in paths[:NAMED]) + more


def _read(files: Sequence[Path], new_reader: NewReader) -> Reader:
    """A reader that has read the files of one run."""
    reader = new_reader()
    for file in files:
        reader.begin(unpacked_name(file) if len(files) > 1 else None)
        try:
            for chunk in chunks(file):
                reader.feed(chunk)
        except Truncated as error:
            reader.note("truncated_file", error.message)
        reader.end()
    return reader
