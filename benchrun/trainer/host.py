"""What the host of a rank does in each step beside launching kernels: wait for data, collect garbage, wait for a core.

The GPU stands still only where its queue runs dry meanwhile, so these times are the most that a step may lose by them.
"""

import gc
import os
import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from benchrun.spec.artifacts import HOST, HostTime, HostTimes
from benchrun.spec.runspec import TrainingSpec

KEPT_STEPS = 200
"""The last steps that are written."""
THREADS = Path("/proc/self/task")


class HostClock:
    """Times this rank's host; one step is as many micro-batches as the specification states."""

    def __init__(self, spec: TrainingSpec) -> None:
        self._steps, self._per_step = spec.training.steps, spec.num_microbatches
        self._data: list[float] = []
        self._garbage: list[float] = []
        self._queued: list[float] = []
        """Seconds by step; the last entry is of the step that runs."""
        self._before = self._collecting = 0.0
        gc.callbacks.append(self._collected)

    def timed(self, micro_batches: Iterable[Any]) -> Iterator[Any]:
        """The micro-batches of a chunk of the model, one after the other, with the time that each is waited for."""
        batches = iter(micro_batches)
        for number in range(self._steps * self._per_step):
            if number // self._per_step == len(self._data):
                self._begin_step()
            started = time.perf_counter()
            batch = next(batches)
            self._data[number // self._per_step] += time.perf_counter() - started
            yield batch
        self._end()
        yield from batches  # the profiled step

    def keep(self) -> None:
        """Write host.json. Every rank calls this after the last step."""
        self._end()
        own = HostTime(
            rank=torch.distributed.get_rank(),
            host=platform.node(),
            cores=cores(),
            data_s=_kept(self._data),
            garbage_s=_kept(self._garbage),
            queued_s=_kept(self._queued) if queued() is not None else (),
        )
        ranks: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.gather_object(own, ranks if own.rank == 0 else None)
        if own.rank == 0:
            first = max(len(self._data) - KEPT_STEPS, 0) + 1
            document = HostTimes(first_step=first, ranks=tuple(ranks))
            Path(HOST).write_text(document.model_dump_json() + "\n")

    def _begin_step(self) -> None:
        self._read_queue()
        for times in (self._data, self._garbage, self._queued):
            times.append(0.0)

    def _end(self) -> None:
        """The last measured step is over."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
            self._read_queue()

    def _read_queue(self) -> None:
        now = queued() or 0.0
        if self._queued:
            self._queued[-1] = max(now - self._before, 0.0)
        self._before = now

    def _collected(self, phase: str, _: Any) -> None:
        """Python calls this before and after each collection of garbage."""
        if phase == "start":
            self._collecting = time.perf_counter()
        elif self._garbage:
            self._garbage[-1] += time.perf_counter() - self._collecting


def queued() -> float | None:
    """Seconds that this process's threads wanted to run and had no core, since they began; None where unknown.

    The second number of a thread's schedstat (Linux: Documentation/scheduler/sched-stats).
    """
    waits = []
    for file in THREADS.glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):  # a thread ended
            waits.append(int(file.read_text().split()[1]))
    return sum(waits) / 1e9 if waits else None


def cores() -> int:
    """Cores on which this process may run."""
    return len(os.sched_getaffinity(0))


def _kept(seconds: list[float]) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in seconds[-KEPT_STEPS:])
