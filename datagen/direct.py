"""Direct writes, which bypass the page cache: large files at the speed of the disk, without filling the memory.

On file systems without direct writes (tmpfs, some network file systems) the same bytes are written through the cache.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
DIRECT = getattr(os, "O_DIRECT", 0)  # some operating systems have no direct writes

Fill = Callable[[int, memoryview], None]
"""Called with a place in the file and the memory for the bytes from there on."""


@contextmanager
def direct_writer(path: Path) -> Iterator[Callable[[int, int, Fill], int]]:
    """A function that writes to ``path`` from several buffers: one is filled while the disk takes the others.

    It writes a number of bytes from a place on, a multiple of ``BUFFER``, and returns their CRC-32. Leaving the context
    waits until everything is written.
    """
    pending, buffers = deque[Future[None]](), cycle(_buffers(BUFFER))

    def write(place: int, size: int, fill: Fill) -> int:
        checksum = 0
        for start in range(place, place + size, BUFFER):
            if len(pending) == BUFFERS:
                pending.popleft().result()
            memory = memoryview(next(buffers))[: place + size - start]
            for offset in range(0, len(memory), FILLED):
                here = memory[offset : offset + FILLED]
                fill(start + offset, here)
                checksum = crc32(here, checksum)
            pending.append(disk.submit(write_direct, file.fileno(), memory, start))
        return checksum

    with os.fdopen(open_direct(path), "wb", 0) as file, ThreadPoolExecutor(1) as disk:
        yield write
        for future in pending:
            future.result()


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


def open_direct(path: Path) -> int:
    """The descriptor of ``path`` for :func:`write_direct`; the file is made if it is missing."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    with suppress(OSError):  # this file system has no direct writes
        fcntl.fcntl(file, fcntl.F_SETFL, DIRECT)
    return file


def write_direct(file: int, data: memoryview, place: int) -> None:
    """Write all of ``data``; an end that is not aligned, usually that of the file, is written through the cache."""
    while data:  # a write may be short
        whole = len(data) // ALIGNED * ALIGNED
        if not whole:
            fcntl.fcntl(file, fcntl.F_SETFL, 0)
        try:
            written = os.pwrite(file, data[: whole or None], place)
        except OSError as error:
            if error.errno != errno.EINVAL or not fcntl.fcntl(file, fcntl.F_GETFL) & DIRECT:
                raise
            fcntl.fcntl(file, fcntl.F_SETFL, 0)
        else:
            data, place = data[written:], place + written
