"""Compute time of this rank in each step: the step's time without that in collectives,
where it waits for others.

The time of a step is the same on all ranks, because collectives make the fast ones
wait. What is left without them is this rank's own: a slow GPU, a busy core, late data.
On a GPU events in its queue mark the time; nothing waits for them, they are read while
the next step runs.
"""

import platform
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import torch.distributed._functional_collectives as functional

from benchrun.rundir.artifacts import RANKS
from benchrun.rundir.rank_times import KEPT_STEPS, RankTime, RankTimes
from benchrun.runspec.spec import TrainingSpec

from . import hang
from .ranks import at_first_rank

COLLECTIVES = re.compile(
    r"_?(all|reduce|broadcast|gather|scatter|barrier|send|recv|end_coalescing)"
)
"""Methods of a process group that communicate, in every version of torch."""
Row = tuple[int, float, float]
"""Number of a step, its seconds of computing and in collectives."""
MANY, SAMPLED = 500, 10
"""Calls in a step above which only every n-th step is measured, and n: marks take the
host a few microseconds.
"""


def separable(spec: TrainingSpec) -> bool:
    """Whether the time in collectives can be separated from the rest.

    Not on GPUs where kernels communicate themselves (userbuffers), where a ring runs on
    streams beside the first (context parallelism), and where CUDA graphs may hold
    collectives.
    """
    training = spec.training
    return spec.gpu == "CPU" or not (
        training.tp_comm_overlap or spec.layout.cp > 1 or training.cuda_graphs != "none"
    )


class StepClock:
    """Times the steps of this rank. As a context manager, because it replaces methods
    of torch.distributed meanwhile.

    ``streams``: the loop's stream waits for others only for communication, as FSDP of
    torch makes it.
    """

    def __init__(self, spec: TrainingSpec, *, streams: bool = False) -> None:
        self._gpu, self._measures = spec.gpu != "CPU", separable(spec)
        self._alone = spec.num_gpus == 1
        """One rank waits for no other one: whatever its streams wait for is its own."""
        self._streams = streams and self._gpu
        self._stream: Any = torch.cuda.current_stream() if self._gpu else None
        self._replaced: list[tuple[Any, str, Any]] = []
        self._inside = False
        """Within a call that is measured already, or before the first step."""
        self._calls: list[Any] = []
        """Marks before and after each call of the step that runs, by turns; of a call that
        runs the first one.
        """
        self._started: Any = None
        self._unread: deque[tuple[int, Any, Any, list[Any]]] = deque()
        """Steps still to be read: number, the marks of its ends, those of its calls."""
        self._free: list[Any] = []
        self._every = 1
        self._rows: deque[Row] = deque(maxlen=KEPT_STEPS)

    def __enter__(self) -> "StepClock":
        if self._measures and not self._alone:
            group = torch.distributed.ProcessGroup
            work = torch.distributed.Work
            places = []
            for name in vars(group):
                if COLLECTIVES.match(name):
                    places.append((group, name))
            places += [(work, "wait"), (functional, "wait_tensor")]
            if self._streams:
                places += [(torch.cuda.Stream, "wait_event"), (torch.cuda.Stream, "wait_stream")]
            for owner, name in places:
                # Not getattr, which returns a method of C++ without its binding to
                # objects.
                self._replaced.append((owner, name, vars(owner)[name]))
                setattr(owner, name, self._measured(getattr(owner, name)))
        self._inside = True
        if self._gpu:
            hang.device = self.device
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, function in self._replaced:
            setattr(owner, name, function)

    def start(self) -> None:
        """The first step begins."""
        self._started, self._inside = self._mark(), False

    def read(self) -> None:
        """Read the steps that the GPU has done. Called when its queue is full, so that
        it costs no time."""
        while self._unread and (not self._gpu or self._unread[0][2].query()):
            number, started, ended, calls = self._unread.popleft()
            in_calls = sum(map(self._seconds, calls[::2], calls[1::2]))
            self._rows.append((number, self._seconds(started, ended) - in_calls, in_calls))
            self._free += calls
            self._every = SAMPLED if len(calls) // 2 > MANY else 1

    def end_step(self, number: int) -> None:
        """Step ``number`` ends and the next begins."""
        ended = self._mark()
        if not self._inside:
            self._unread.append((number, self._started, ended, self._calls))
        self._started, self._calls = ended, []
        self._inside = (number + 1) % self._every != 0

    def keep(self, stage: int = 0) -> None:
        """Write ranks.json. Every rank calls this at the end; ``stage``: its pipeline
        stage."""
        if self._gpu:
            torch.cuda.synchronize()
        self.read()
        if not self._measures:
            return
        every = at_first_rank((platform.node(), stage, tuple(self._rows)))
        if every:
            document = together(every)
            Path(RANKS).write_text(document.model_dump_json() + "\n", encoding="utf-8")

    def device(self) -> str | None:
        """What the GPU's queue has come to: ``waits`` in a collective, or ``computes`` before
        one; None if it has done all. Another thread asks while the loop stands still.
        """
        marks: list[Any] = []
        for *_, calls in tuple(self._unread):
            marks += calls
        marks += self._calls
        with torch.cuda.device(self._stream.device):
            for place, mark in enumerate(marks):
                if not mark.query():
                    return "waits" if place % 2 else "computes"
        return "waits" if len(marks) % 2 else None

    def _measured(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with a mark before and after it."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            # Communication on another stream delays the step only when the first stream
            # waits for it.
            if (
                self._inside
                or (self._gpu and torch.cuda.current_stream() != self._stream)
                or self._elsewhere(args)
            ):
                return function(*args, **kwargs)
            self._inside = True
            try:
                self._calls.append(self._mark())
                result = function(*args, **kwargs)
                self._calls.append(self._mark())
            except BaseException:
                self._calls.pop()
                raise
            finally:
                self._inside = False
            return result

        return call

    def _elsewhere(self, args: tuple[Any, ...]) -> bool:
        """Whether another stream than the first waits in this call."""
        return (
            self._streams
            and bool(args)
            and isinstance(args[0], torch.cuda.Stream)
            and args[0] != self._stream
        )

    def _mark(self) -> Any:
        """The time, or an event in the GPU's queue."""
        if not self._gpu:
            return time.perf_counter()
        if not self._free:
            self._free.append(torch.cuda.Event(enable_timing=True))
        event = self._free.pop()
        event.record()
        return event

    def _seconds(self, start: Any, end: Any) -> float:
        if self._gpu:
            return float(start.elapsed_time(end)) / 1000
        return float(end - start)


def together(every: Sequence[tuple[str, int, Sequence[Row]]]) -> RankTimes:
    """Times of all ranks, of the steps that each of them measured: a rank with many
    calls measures fewer steps. ``every``: host, stage and rows of each rank, in order.
    """
    measured = [{number for number, _, _ in rows} for _, _, rows in every]
    steps = sorted(set.intersection(*measured))
    ranks = []
    for rank, (host, stage, rows) in enumerate(every):
        by_step = {number: (compute, calls) for number, compute, calls in rows}
        times = RankTime(
            rank=rank,
            host=host,
            stage=stage,
            compute_time_s=tuple(round(max(by_step[step][0], 0.0), 6) for step in steps),
            collective_time_s=tuple(round(by_step[step][1], 6) for step in steps),
        )
        ranks.append(times)
    return RankTimes(steps=tuple(steps), ranks=tuple(ranks))
