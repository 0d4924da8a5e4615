"""Direct writes, which bypass the page cache: large files at the speed of the disk, without filling the memory.

On file systems without direct writes (tmpfs, some network file systems) the same bytes are written through the cache.
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
"""Bytes per write, a power of two. Larger writes wake their thread less often, which helps when all cores are busy."""
FILLED = 1 << 22
"""Bytes that are made and then summed at a time, so that the checksum reads them from a cache."""
BUFFERS = 3
ALIGNED = 4096
"""Alignment in bytes of place, length and memory of a direct write."""


class DirectWriter:
    """Writes a file from several buffers: one is filled while the disk takes the others.

    Leaving it as a context waits until everything is written.
    """

    def __init__(self, path: Path) -> None:
        self._files = Files(path)
        self._disk = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()
        self._buffers = cycle(_buffers(BUFFER))

    def write(self, place: int, size: int, fill: Callable[[int, memoryview], None]) -> int:
        """Write ``size`` bytes from ``place`` on, a multiple of ``BUFFER``, and return their CRC-32.

        ``fill`` receives a place in the file and the memory for the bytes from there on.
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
    """``BUFFERS`` buffers, reused: fresh memory costs a page fault every 4 KB."""
    return [buffer(size) for _ in range(BUFFERS)]


def buffer(size: int) -> mmap.mmap:
    """Memory of ``size`` bytes on a page boundary, in pages of 2 MB where the system has them.

    From such pages two processes wrote 1.75 and 1.98 GB/s to a disk that took 1.50 from pages of 4 KB, probably because
    a request to the disk holds a limited number of pages.
    """
    # Private: a forked process gets its own copy.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    with suppress(OSError, AttributeError):  # missing in this kernel or operating system
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class Files:
    """One file opened twice: for direct writes where they are possible, and for ordinary writes."""

    def __init__(self, path: Path) -> None:
        self._plain = self._direct = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        with suppress(OSError, AttributeError):  # missing in this file system or operating system
            self._direct = os.open(path, os.O_WRONLY | os.O_DIRECT)

    def write(self, data: memoryview, place: int) -> None:
        """Write all of ``data``; the end of a file is seldom aligned and is written through the cache."""
        while data:  # a write may be short
            whole = len(data) // ALIGNED * ALIGNED
            file = self._direct if whole else self._plain
            try:
                written = os.pwrite(file, data[: whole or None], place)
            except OSError as error:
                if error.errno != errno.EINVAL or file == self._plain:
                    raise
                os.close(file)
                self._direct = self._plain
            else:
                data, place = data[written:], place + written

    def close(self) -> None:
        """Close both."""
        for file in {self._plain, self._direct}:
            os.close(file)
