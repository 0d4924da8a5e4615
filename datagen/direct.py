"""Writing past the page cache: large files at the speed of the disk, and without taking the machine's memory.

Where the file system has no direct writes (tmpfs, some network ones) the same bytes go the ordinary way.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from datagen.checksum import crc32

BUFFER = 1 << 22
"""Bytes; a power of two."""
ALIGNED = 4096
"""Of place, length and memory, for a direct write."""


def write_at(path: Path, place: int, size: int, fill: Callable[[int, memoryview], None]) -> int:
    """Write ``size`` bytes from ``place`` on, a multiple of ``BUFFER``; their CRC-32.

    ``fill`` is called with a place and the memory for the bytes from there on. One buffer is filled while the disk
    takes the others.
    """
    checksum = 0
    files = Files(path)
    buffers = _buffers(BUFFER)
    with closing(files), ThreadPoolExecutor(1) as disk:
        pending: deque[Future[None]] = deque()
        for number, start in enumerate(range(place, place + size, BUFFER)):
            if len(pending) == len(buffers):
                pending.popleft().result()
            memory = memoryview(buffers[number % len(buffers)])[: place + size - start]
            fill(start, memory)
            checksum = crc32(memory, checksum)
            pending.append(disk.submit(files.write, memory, start))
        for write in pending:
            write.result()
    return checksum


@lru_cache(maxsize=1)
def _buffers(size: int) -> list[mmap.mmap]:
    """Three, on page boundaries; kept, because fresh memory costs a page fault every 4 KB."""
    # Private: a process that is forked from this one has its own.
    return [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE) for _ in range(3)]


class Files:
    """One file opened twice: for direct writes where they are possible, and for the others."""

    def __init__(self, path: Path) -> None:
        self._plain = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            self._direct: int | None = os.open(path, os.O_WRONLY | os.O_DIRECT)
        except (OSError, AttributeError):  # not on this file system, or this operating system
            self._direct = None

    def write(self, data: memoryview, place: int) -> None:
        """All of ``data``; the end of a file, which seldom is a multiple of anything, goes the ordinary way."""
        while data:  # a write may take less than it was given
            whole = len(data) // ALIGNED * ALIGNED
            direct = self._direct if whole else None
            try:
                written = (
                    os.pwrite(self._plain, data, place) if direct is None else os.pwrite(direct, data[:whole], place)
                )
            except OSError as error:
                if error.errno != errno.EINVAL or direct is None:
                    raise
                os.close(direct)
                self._direct = None
                continue
            data, place = data[written:], place + written

    def close(self) -> None:
        """Both."""
        os.close(self._plain)
        if self._direct is not None:
            os.close(self._direct)
