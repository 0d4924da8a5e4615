"""Work on several processes, its results in the order of the tasks, with no more of them in memory than are in work."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import parent_process
from threading import Thread
from typing import TypeVar

from benchrun.errors import MachineError

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(function: Callable[[Task], Result], tasks: Iterable[Task], workers: int) -> Iterator[Result]:
    """``map(function, tasks)``, on ``workers`` processes if they are more than one.

    MachineError if a process is killed. What ``function`` raises is raised here.
    """
    if workers == 1:
        yield from map(function, tasks)
        return
    left = iter(tasks)
    with ProcessPoolExecutor(workers, initializer=_end_in_silence) as pool:
        running: deque[Future[Result]] = deque(pool.submit(function, task) for task in islice(left, 2 * workers))
        try:
            while running:
                result = running.popleft().result()
                running.extend(pool.submit(function, task) for task in islice(left, 1))
                yield result
        except BrokenProcessPool as error:
            hint = "was it killed for its memory? The same command goes on from where it stopped"
            raise MachineError("a worker process ended", hint=hint) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _end_in_silence() -> None:
    """With the parent: killed alone, it would leave workers that wait for a task for ever, and keep its lock.

    Ctrl-C is the parent's: a worker that ended of it first would look as if it had been killed for its memory.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
