"""The time for everything that waits for jobs or measures ages: the one place to put a
virtual clock in.
"""

import os
import time


def now() -> float:
    """Seconds since the epoch by this host's clock."""
    return time.time()


def monotonic() -> float:
    """Seconds that never jump, from an arbitrary start."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def touched(file: int) -> float:
    """Touch an open file; its new time in seconds since the epoch, by the clock of its
    file system.
    """
    os.utime(file)
    return os.fstat(file).st_mtime
