"""Training loops without a model around the frameworks' own profilers: which steps do they record?

Steps are counted from 1. Each step is a marked range, so that a trace shows which of them are in it.
"""

import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

NAME = "loop step {}"


@contextlib.contextmanager
def run_directory() -> Iterator[None]:
    """A working directory with the folder that a job makes for its traces, in the process of rank 0 of one."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("profile").mkdir()
        try:
            yield
        finally:
            os.chdir(before)
            torch.distributed.destroy_process_group()


def compute(step: int) -> None:
    """A product, in a range with the number of the step."""
    with torch.profiler.record_function(NAME.format(step)):
        torch.ones(4, 4) @ torch.ones(4, 4)


def in_traces() -> list[int]:
    """The steps in the traces below ``profile``, each once for each trace."""
    steps = []
    for file in sorted(Path("profile").rglob("*.json*")):
        data = file.read_bytes()
        text = gzip.decompress(data) if file.suffix == ".gz" else data
        events = json.loads(text).get("traceEvents", []) if text else []
        names = {event.get("name", "") for event in events}
        steps += [int(name.split()[-1]) for name in names if name.startswith(NAME.format(""))]
    return sorted(steps)


class Range:
    """Stands for the range of CUDA's profiler API, and keeps the steps that run while it is open."""

    def __init__(self) -> None:
        self.open, self.steps = False, []
        torch.cuda.cudart = lambda: SimpleNamespace(cudaProfilerStart=self.start, cudaProfilerStop=self.stop)
        torch.cuda.check_error = lambda code: None
        nothing = SimpleNamespace(__enter__=lambda: None, __exit__=lambda *_: None)
        torch.autograd.profiler.emit_nvtx = lambda record_shapes=False: nothing

    def start(self) -> None:
        assert not self.open
        self.open = True

    def stop(self) -> None:
        assert self.open
        self.open = False

    def compute(self, step: int) -> None:
        compute(step)
        self.steps += [step] if self.open else []


def recorded(steps: int, begin: Callable[[int], Any], end: Callable[[int], Any]) -> dict[str, list[int]]:
    """The steps in traces and within the range. ``begin`` and ``end`` get the number of steps that are complete."""
    window = Range()
    for step in range(1, steps + 1):
        begin(step - 1)
        window.compute(step)
        end(step)
    assert not window.open, "the range was never closed"
    return {"traces": in_traces(), "range": window.steps}
