"""Files -> Logs: one run's log, the logs of any number of runs, or a log that is still
being written.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchrun.errors import UserError

from .envelope import one_a_line
from .grouping import Part, grouped
from .inputs import (
    CHUNK,
    COMPRESSED_SUFFIXES,
    STDIN,
    Truncated,
    begun,
    chunks,
    logs_in,
    unpacked_name,
)
from .lines import LONGEST_LINE
from .reader import Reader
from .records import Log
from .rows import Rows, Step
from .serving import LARGEST_DOCUMENT, cut_off, documents

FIRST = 1 << 11
"""Bytes of the first block; each of the next ones is as long as all before it."""
NAMED = 4
"""Paths that the name of a run lists."""
_BOM = b"\xef\xbb\xbf"
_KEY = b'"output_throughput"'
"""A key of every result file of vLLM's and SGLang's clients."""
LOOKS = (1 << 20, 1 << 25)
"""Bytes of the end of a log that are searched for a step, one after the other until
there is one.
"""
LONGEST_STEP_LINE = 1 << 14
_GPUS = re.compile(r"_gpus_([1-9]\d{0,5})(?!\d)")
"""Number of GPUs in the name of a result file, as srt-slurm and InferenceMAX write it.
"""
_DOCUMENT = re.compile(rb"\s*(\[\s*)?\{\s*\"")
"""Begin of a JSON object or an array of them; a line of a log may begin with a bracket.
"""


def parse_log(*paths: str | Path, framework: str | None = None) -> Log:
    """Read one run's log: a file, ``-`` for stdin, a directory, or several (of ranks,
    nodes, stdout and stderr).

    UserError for what cannot be read and for a framework without a dialect.
    """
    files = [*map(Path, paths)]
    return _read([log.file for log in logs_in(files)], framework).log(_name(files))


def parse_logs(
    *paths: Path, framework: str | None = None, jobs: bool = False
) -> tuple[list[Log], list[Path]]:
    """Read the logs of any number of runs: one Log per run, and the files of
    directories that are left out.

    The logs of a run directory are one run; ``grouping`` decides about the others.
    ``jobs``: every job counts by itself, also one that goes on with another.
    """
    logs, left_out = _grouped(paths, framework, jobs=jobs)
    return [each for log in logs for each in _each_result(log)], left_out


def _grouped(
    paths: Sequence[Path], framework: str | None, *, jobs: bool
) -> tuple[list[Log], list[Path]]:
    sources = logs_in(paths)
    if len(sources) == 1 or {source.run for source in sources} == {paths[0]}:
        return [parse_log(*paths, framework=framework)], []
    runs: dict[Path, list[Path]] = {}
    parts = []
    for source in sources:
        if source.run is not None:
            runs.setdefault(source.run, []).append(source.file)
        else:
            reader = _read([source.file], framework)
            parts.append(Part(source, reader.log(_name([source.file])), reader.stated()))
    results = [part for part in parts if part.log.served]
    if len(results) > 1 or (results and (runs or any(len(part.log.steps) for part in parts))):
        parts = [part for part in parts if not part.log.served]  # each result is one of its own
    else:
        results = []
    if not (runs or results or jobs or any(len(part.log.steps) for part in parts)):
        return [_log_of(parts, _name(paths), framework)], []
    groups, left_out = grouped(parts, jobs=jobs)
    alone = len(groups) + len(runs) + len(results) == 1
    logs = [_log_of(group, _name(paths) if alone else None, framework) for group in groups]
    for run, files in runs.items():
        logs.append(_read(files, framework).log(_name(paths) if alone else str(run)))
    logs += [part.log for part in results]
    return logs, [part.source.file for part in left_out]


def _log_of(parts: list[Part], name: str | None, framework: str | None) -> Log:
    """One run's log. Several files are read again together: the facts of one hold for
    the steps of all.
    """
    files = [part.source.file for part in parts]
    name = name or _name(files)
    if len(parts) == 1:
        return replace(parts[0].log, file=name)
    if not all(file.is_file() for file in files):
        raise UserError("a pipe can be read once only", where=name, hint="write it to a file first")
    return _read(files, framework).log(name)


def _name(paths: Sequence[Path]) -> str:
    """Name of a run: its paths, or the first of many."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join("stdin" if path == STDIN else str(path) for path in paths[:NAMED]) + more


def _read(files: Sequence[Path], framework: str | None) -> Reader:
    """A reader that has read the files of one run."""
    reader = Reader(framework)
    for file in files:
        reader.begin(unpacked_name(file) if len(files) > 1 else None)
        try:
            _feed(reader, file, framework)
        except Truncated as error:
            reader.note("truncated_file", error.message)
        reader.end()
    return reader


def _feed(reader: Reader, file: Path, framework: str | None) -> None:
    """Give a file to ``reader``: whole if it is a document of results, else as it
    comes.
    """
    head, stream = begun(chunks(file), LONGEST_STEP_LINE)
    head = head.removeprefix(_BOM)
    if _DOCUMENT.match(head):
        head, stream = begun(stream, LARGEST_DOCUMENT, head)
        served = []
        for each in documents(head):
            if framework in (None, each.framework):
                served.append(each)
        if cut_off(head):
            reader.note("truncated_file", "a JSON document ends in the middle, and is left out")
        if served:
            reader.take(served, str(file))
            return
        head = one_a_line(head) if head.lstrip().startswith(b"[") else head
    elif _KEY in head:
        reader.note("no_document", "text stands before the JSON of a result: remove it")
    begin, end = 0, FIRST
    while begin < len(head):  # the forms of a small log's lines are known after its first ones
        reader.feed(head[begin:end])
        begin, end = end, 2 * end
    for chunk in stream:
        reader.feed(chunk)


def _each_result(log: Log) -> list[Log]:
    """A log with several results of benchmarks as one log for each."""
    several = len(log.served) > 1
    logs = []
    for number, served in enumerate(log.served or ()):
        name = f"{log.file} (result {number + 1} of {len(log.served)})" if several else log.file
        facts = replace(log.facts) if not several else served.facts
        if facts.num_gpus is None and (match := _GPUS.search(log.file)):
            facts.num_gpus = int(match[1])
        values, ended = served.values, served.closed
        logs.append(
            replace(log, file=name, facts=facts, results=values, served=[served], ended=ended)
        )
    return logs or [log]


class Tail:
    """Reads a log that is still being written; each call returns the new steps."""

    def __init__(self, path: Path, framework: str | None = None) -> None:
        self._path = path
        self._offset = 0
        self._seen = 0
        self._reader = Reader(framework)

    def read(self) -> list[Step]:
        """Steps of the lines that were completed since the last call; none while there
        is no file.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while chunk := file.read(CHUNK):
                    self._reader.feed(chunk)
                if file.tell() == self._offset:
                    return []
                self._offset = file.tell()
        except FileNotFoundError:
            return []
        rows = self._reader.rows
        first = (
            self._seen if self._seen <= len(rows) else 0
        )  # fewer rows than before: of another training
        self._seen = len(rows)
        return [rows[index] for index in range(first, len(rows))]

    def log(self) -> Log:
        """Everything so far."""
        return self._reader.log(str(self._path))


def last_rows(path: Path, near: int = 0) -> Rows:
    """The last steps of a log that may still grow; empty if none is found.

    A log of many ranks may be huge: the end is searched, then what follows ``near``,
    the place of an earlier step.
    """
    if path.suffix in COMPRESSED_SUFFIXES:
        return parse_log(path).steps
    size = path.stat().st_size
    for look in LOOKS:
        start = max(size - look, 0)
        rows = _rows_in(path, start, look)
        if len(rows) or start == 0:
            return rows
    return _rows_in(path, max(near - LONGEST_STEP_LINE, 0), LOOKS[-1])


def _rows_in(path: Path, start: int, length: int) -> Rows:
    """The steps in ``length`` bytes from ``start``."""
    reader, end = Reader(), start + length
    with path.open("rb") as file:
        if start:
            reader.learn(file.read(LONGEST_STEP_LINE))
        file.seek(start)
        if start:
            file.readline(LONGEST_LINE)  # the rest of a line
        while (at := file.tell()) < end and (chunk := file.read(min(CHUNK, end - at))):
            reader.feed(chunk)
    return reader.rows
