"""Time of a rank's host in each step beside launching kernels: waiting for data,
garbage collection, waiting for a core, and the time between two steps.

The GPU stands still only if its queue runs dry meanwhile, so these times are the most
that a step may lose by them.
"""

import gc
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchrun.rundir.artifacts import HOST
from benchrun.rundir.rank_times import KEPT_STEPS, HostTime, HostTimes
from benchrun.runspec.spec import TrainingSpec

from .ranks import at_first_rank

THREADS = Path("/proc/self/task")
SHARE = 0.25
"""Share of the busiest thread's time from which a thread does the work."""


class HostClock:
    """Times this rank's host; one step is as many micro-batches as the specification
    states."""

    def __init__(self, spec: TrainingSpec) -> None:
        self._steps, self._per_step = spec.training.steps, spec.num_microbatches
        self._data: list[float] = []
        self._garbage: list[float] = []
        self._queued: list[float] = []
        self._between: list[float] = []
        """Seconds by step; the last entry is of the step that runs."""
        self._ended: float | None = None
        """Time at which the step before ended."""
        self._idled = 0.0
        """Seconds from then to the begin of the step that runs."""
        self._before: dict[str, Scheduled] = {}
        self._collecting = 0.0
        self.waited_for_data_s = 0.0
        """Seconds waited since the start, profiled steps included."""
        gc.callbacks.append(self._collected)

    def timed(self, micro_batches: Iterable[Any]) -> Iterator[Any]:
        """The micro-batches of a chunk of the model, one after the other, with the time
        that each is waited for."""
        batches = iter(micro_batches)
        for number in range(self._steps * self._per_step):
            if number // self._per_step == len(self._data):
                self._add_step()
            batch, waited_s = self._waited(partial(next, batches))
            self._data[number // self._per_step] += waited_s
            yield batch
        self._end()
        ended = object()
        batch = self._waited(partial(next, batches, ended))[0]
        while batch is not ended:  # the profiled steps
            yield batch
            batch = self._waited(partial(next, batches, ended))[0]

    def begin_step(self) -> None:
        """A step begins: what this rank did since the end of the one before was not
        training."""
        if self._ended is not None:
            self._idled = time.perf_counter() - self._ended

    def end_step(self) -> None:
        """A step has ended: its loss is known."""
        self._ended = time.perf_counter()

    def fetch(self, micro_batches: Callable[[], Any]) -> Any:
        """Return the micro-batches of one step from ``micro_batches``, all at once, and
        begin the step with them.
        """
        self.begin_step()
        measured = len(self._data) < self._steps
        if measured:
            self._add_step()
        fetched, waited_s = self._waited(micro_batches)
        if measured:
            self._data[-1] += waited_s
        return fetched

    def _waited(self, fetch: Callable[[], Any]) -> tuple[Any, float]:
        """Return what ``fetch`` returns, and how long that took in s."""
        started = time.perf_counter()
        fetched = fetch()
        waited_s = time.perf_counter() - started
        self.waited_for_data_s += waited_s
        return fetched, waited_s

    def keep(self) -> None:
        """Write host.json. Every rank calls this after the last step."""
        self._end()
        own = HostTime(
            rank=torch.distributed.get_rank(),
            host=platform.node(),
            cores=cores(),
            bound=len(os.sched_getaffinity(0)) < (os.cpu_count() or 1),
            data_s=_last(self._data),
            garbage_s=_last(self._garbage),
            queued_s=_last(self._queued) if self._before else (),
            between_s=_last(self._between),
        )
        every = at_first_rank(own)
        if every:
            first = max(len(self._data) - KEPT_STEPS, 0) + 1
            document = HostTimes(first_step=first, ranks=every)
            Path(HOST).write_text(document.model_dump_json() + "\n", encoding="utf-8")

    def _add_step(self) -> None:
        self._read_queue()
        for times in (self._data, self._garbage, self._queued):
            times.append(0.0)
        self._between.append(self._idled)

    def _end(self) -> None:
        """The last measured step is over."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
            self._read_queue()

    def _read_queue(self) -> None:
        now = scheduled()
        if self._queued:
            self._queued[-1] = queued(self._before, now)
        self._before = now

    def _collected(self, phase: str, _: Any) -> None:
        """Python calls this before and after each collection of garbage."""
        if phase == "start":
            self._collecting = time.perf_counter()
        elif self._garbage:
            self._garbage[-1] += time.perf_counter() - self._collecting


class Scheduled(NamedTuple):
    """Counts of the kernel for a thread, in s since it began."""

    ran: float
    waited: float
    """Seconds in which it wanted to run and had no core."""


def scheduled() -> dict[str, Scheduled]:
    """Read the counts of each thread of this process; empty if the system has none
    (Linux: Documentation/scheduler/sched-stats).
    """
    threads = {}
    for file in THREADS.glob("*/schedstat"):
        with suppress(OSError, ValueError):  # a thread ended
            ran, waited, _ = map(int, file.read_text(encoding="utf-8").split())
            threads[file.parent.name] = Scheduled(ran / 1e9, waited / 1e9)
    return threads


def queued(before: dict[str, Scheduled], now: dict[str, Scheduled]) -> float:
    """Seconds for which the threads that do the work waited for a core: those that ran
    at least a quarter as long as the busiest. Forward and backward pass may have a
    thread each; the many that only wait for messages do not count.
    """
    none = Scheduled(0.0, 0.0)
    spent = []
    for name, thread in now.items():
        old = before.get(name, none)
        spent.append(Scheduled(thread.ran - old.ran, thread.waited - old.waited))
    busiest = max(spent, default=none).ran
    return sum(thread.waited for thread in spent if thread.ran >= SHARE * busiest)


def cores() -> str:
    """The cores on which this process may run, as Linux lists them: ``0-3,8``."""
    runs: list[list[int]] = []
    for core in sorted(os.sched_getaffinity(0)):
        if runs and core == runs[-1][-1] + 1:
            runs[-1][1:] = [core]
        else:
            runs.append([core])
    return ",".join("-".join(map(str, run)) for run in runs)


def _last(seconds: list[float]) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in seconds[-KEPT_STEPS:])
