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
from contextlib import suppress
from functools import lru_cache
from itertools import cycle
from pathlib import Path

from datagen.checksum import crc32

BUFFER = 1 << 24
"""Bytes; a power of two. A larger write wakes its thread less often, which takes time where all cores are at work."""
FILLED = 1 << 22
"""Bytes that are made, and then summed, at a time: still in a cache."""
BUFFERS = 3
ALIGNED = 4096
"""Of place, length and memory, for a direct write."""


class DirectWriter:
    """Writes what is made in its buffers: one is filled while the disk takes the others.

    Leave it, as a context, to know that everything is written.
    """

    def __init__(self, path: Path) -> None:
        self._files = Files(path)
        self._disk = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()
        self._buffers = cycle(_buffers(BUFFER))

    def write(self, place: int, size: int, fill: Callable[[int, memoryview], None]) -> int:
        """Write ``size`` bytes from ``place`` on, a multiple of ``BUFFER``; their CRC-32.

        ``fill`` is called with a place and the memory for the bytes from there on.
        """
        checksum = 0
        for start in range(place, place + size, BUFFER):
            if len(self._pending) == BUFFERS:
                self._pending.popleft().result()
            memory = memoryview(next(self._buffers))[: place + size - start]
            for offset in range(0, len(memory), FILLED):
                here = memory[offset : offset + FILLED]
                fill(start + offset, here)
                checksum = crc32(here, checksum)
            self._pending.append(self._disk.submit(self._files.write, memory, start))
        return checksum

    def __enter__(self) -> DirectWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.shutdown()
        self._files.close()
        for write in self._pending:
            write.result()


@lru_cache(maxsize=1)
def _buffers(size: int) -> list[mmap.mmap]:
    """``BUFFERS`` of them, kept: fresh memory costs a page fault every 4 KB."""
    return [buffer(size) for _ in range(BUFFERS)]


def buffer(size: int) -> mmap.mmap:
    """Memory on a page boundary, in pages of 2 MB where the system has them.

    From such pages two processes wrote 1.75 and 1.98 GB/s to a disk that took 1.50 from those of 4 KB, probably because
    a request to it holds a limited number of pages.
    """
    # Private: a process that is forked from this one has its own.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    with suppress(OSError, AttributeError):  # not in this kernel, or this operating system
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


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
