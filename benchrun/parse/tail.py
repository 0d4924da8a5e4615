"""Logs that are still being written: each byte is read once, or only the last ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from benchrun.parse.files import NewReader, parse_log
from benchrun.parse.inputs import CHUNK, COMPRESSED_SUFFIXES
from benchrun.parse.lines import LONGEST_LINE
from benchrun.parse.reader import Reader
from benchrun.parse.records import Log
from benchrun.parse.rows import Step

LOOKS = (1 << 20, 1 << 25)
"""How many bytes of the end of a log are searched for a step, one after the other until there is one."""

LONGEST_STEP_LINE = 1 << 14


class Tail:
    """Reads a log that is still being written; each call gives the steps that are new."""

    def __init__(self, path: Path, reader: Reader) -> None:
        self._path = path
        self._offset = 0
        self._seen = 0
        self._reader = reader

    def read(self) -> list[Step]:
        """Steps of the lines that were finished since the last call; none while there is no file."""
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
        new = [rows[index] for index in range(self._seen, len(rows))]
        self._seen = len(rows)
        return new

    def log(self) -> Log:
        """Everything so far."""
        return self._reader.log(str(self._path))


def last_step(path: Path, new_reader: NewReader, near: int = 0) -> int | None:
    """The number of the last step in a log that may still grow; None where none is found.

    A log of many ranks may be larger than anybody wants to wait for: the end is searched, then what follows ``near``,
    where somebody saw a step.
    """
    if path.suffix in COMPRESSED_SUFFIXES:
        return parse_log([path], new_reader).steps.last_step
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for look in LOOKS:
            start = max(size - look, 0)
            step = _last_step(file, new_reader(), start, look)
            if step is not None or start == 0:
                return step
        return _last_step(file, new_reader(), max(near - LONGEST_STEP_LINE, 0), LOOKS[-1])


def _last_step(file: BinaryIO, reader: Reader, start: int, length: int) -> int | None:
    """The same of ``length`` bytes."""
    end = start + length
    file.seek(start)
    if start:
        file.readline(LONGEST_LINE)  # the rest of a line
    while (at := file.tell()) < end and (chunk := file.read(min(CHUNK, end - at))):
        reader.feed(chunk)
    return reader.rows.last_step
