"""Parallel map over processes: results in the order of the tasks, with a bounded number
of them in memory."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import parent_process
from threading import Thread
from typing import TypeVar

from benchrun.errors import MachineError

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Iterator[Result]:
    """``map(function, tasks)``, on ``workers`` processes if there is more than one.

    MachineError if a process is killed. Exceptions of ``function`` are raised here.
    """
    if workers == 1:
        yield from map(function, tasks)
        return
    with ProcessPoolExecutor(workers, initializer=_follow_parent) as pool:
        submitted = (pool.submit(function, task) for task in tasks)
        running = deque(islice(submitted, 2 * workers))
        try:
            while running:
                yield running.popleft().result()
                running.extend(islice(submitted, 1))
        except BrokenProcessPool as error:
            hint = "was it killed for its memory? Repeat the command: it resumes"
            raise MachineError("a worker process ended", hint=hint) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Make a worker end with its parent: if the parent alone is killed, its workers
    would wait forever with its lock.

    Workers ignore Ctrl-C, which the parent handles: a worker that ended first would
    look as if it had been killed.
    """

    def watch() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=watch, daemon=True).start()
