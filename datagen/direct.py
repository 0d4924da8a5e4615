"""Direct writes, which bypass the page cache: large files at the speed of the disk,
without filling the memory.

On file systems without direct writes (tmpfs, some network file systems) the same bytes
are written through the cache.
"""

import errno
import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from zlib import crc32

PIECE = 1 << 22
"""Bytes that are made, summed and written at a time: few enough for a cache, many
enough to keep the writes few."""
ALIGNED = 4096
"""Alignment in bytes of place, length and memory of a direct write."""
DIRECT = getattr(os, "O_DIRECT", 0)  # some operating systems have no direct writes


def write(path: Path, place: int, size: int, fill: Callable[[int, memoryview], None]) -> int:
    """Write ``size`` bytes to ``path`` from ``place`` on, a multiple of ``ALIGNED``,
    and return their CRC-32.

    ``fill`` is called with a place in the file and the memory for the bytes from there
    on, while a thread writes the bytes before it.
    """
    checksum = 0
    memory = memoryview(buffer(size))
    with ThreadPoolExecutor(1) as disk:
        writes = []
        for start in range(0, size, PIECE):
            piece = memory[start : start + PIECE]
            fill(place + start, piece)
            checksum = crc32(piece, checksum)
            writes.append(disk.submit(write_direct, path, place + start, piece))
        for written in writes:
            written.result()
    return checksum


@lru_cache(maxsize=1)
def buffer(size: int) -> mmap.mmap:
    """Memory of ``size`` bytes on a page boundary, reused: fresh memory costs a page
    fault every 4 KB.

    Its pages have 2 MB if the system has such pages: a disk took 1.75 GB/s from them,
    and 1.50 from pages of 4 KB.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)  # a forked process gets its own copy
    with suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def write_direct(path: Path, place: int, data: memoryview) -> None:
    """Write all of ``data``; an end that is not aligned, usually that of the file, is
    written through the cache."""
    direct = DIRECT
    while data:  # a write may be short
        aligned = len(data) // ALIGNED * ALIGNED
        direct = direct if aligned else 0
        try:
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | direct, 0o644), "wb", 0
            ) as file:
                written = os.pwrite(file.fileno(), data[: aligned or None], place)
        except OSError as error:
            if not direct or error.errno != errno.EINVAL:
                raise
            direct = 0
        else:
            data = data[written:]
            place = place + written
