"""Causes of slowness, injected into ranks of the worker: a sitecustomize that Python imports when a rank starts.

INJECT names the cause. Nothing of the worker is changed; its own functions are wrapped when their module is loaded.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME, RANK = os.environ.get("INJECT", ""), os.environ.get("RANK")
SLOW = "1"
"""The rank of causes that concern one rank."""
HOGS = 2
SECONDS = float(os.environ.get("INJECT_SECONDS") or 0.0)
"""How long a sleep or a pause lasts; of garbage, how many times the usual heap."""
PASSES = 120
"""Of a norm over its input, each of four operations."""
SIZE, TIMES = 8192, 12
"""Matrices that a slow rank on a GPU multiplies in each forward pass: about 20 ms on an H100."""
KEPT: list[Any] = []
"""What makes the heap large."""


def slow_loader(module: Any) -> None:
    get = module.Mock.__getitem__

    def slower(self: Any, index: int) -> Any:
        time.sleep(SECONDS)
        return get(self, index)

    module.Mock.__getitem__ = slower


def slow_rank(module: Any) -> None:
    step = module._forward_step

    def slower(*args: Any) -> Any:
        if RANK == SLOW and SECONDS:
            time.sleep(SECONDS)
        elif RANK == SLOW:
            matrix = module.torch.ones(SIZE, SIZE, dtype=module.torch.bfloat16, device="cuda")
            for _ in range(TIMES):
                module.torch.mm(matrix, matrix)
        return step(*args)

    module._forward_step = slower


def garbage(module: Any) -> None:
    KEPT.extend([[number] for number in range(int(400_000 * max(SECONDS, 1)))])
    step = module._forward_step

    def slower(*args: Any) -> Any:
        gc.collect()
        return step(*args)

    module._forward_step = slower


def unfused_norms(module: Any) -> None:
    """Each norm in passes over the memory of one operation each, as an expression of many parts without fusion has."""
    fused = module.Norm.forward

    def slower(self: Any, x: Any) -> Any:
        for _ in range(PASSES):
            x = (x * 2.0 + 1.0 - 1.0) / 2.0
        return fused(self, x)

    module.Norm.forward = slower


def checkpoints(module: Any) -> None:
    collect = module.ranks.collect_garbage

    def slower(spec: Any, step: int) -> None:
        collect(spec, step)
        if step and step % 8 == 0:
            time.sleep(SECONDS)

    module.ranks.collect_garbage = slower


def busy_core() -> None:
    """Bind this rank to the last core it may use, with processes that compute there as long as it lives."""
    if RANK != SLOW:
        return
    core, rank = max(os.sched_getaffinity(0)), os.getpid()
    os.sched_setaffinity(0, {core})
    for _ in range(HOGS):
        if os.fork() == 0:
            while os.getppid() == rank:
                sum(range(100_000))
            os._exit(0)


def stopped_rank() -> None:
    """A process stops this rank for half of the time, as long as it lives."""
    rank = os.getpid()
    if RANK == SLOW and os.fork() == 0:
        log = Path("stdout.log")
        while not (log.exists() and "iteration" in log.read_text()):  # the ranks find each other first
            time.sleep(0.05)
        while os.getppid() == rank:
            os.kill(rank, signal.SIGSTOP)
            time.sleep(SECONDS)
            os.kill(rank, signal.SIGCONT)
            time.sleep(SECONDS)
        os._exit(0)


def one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


AFTER = {
    "slow_loader": ("benchrun.trainer.data", slow_loader),
    "slow_rank": ("benchrun.trainer.train", slow_rank),
    "garbage": ("benchrun.trainer.train", garbage),
    "unfused_norms": ("benchrun.trainer.layers", unfused_norms),
    "checkpoints": ("benchrun.trainer.train", checkpoints),
}
"""The module after whose import a cause is injected."""
AT_START = {"busy_core": busy_core, "one_core": one_core, "stopped_rank": stopped_rank}


class After(importlib.abc.MetaPathFinder):
    """Calls a function with a module after it was loaded."""

    def __init__(self, name: str, function: Callable[[Any], None]) -> None:
        self.name, self.function = name, function

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            self.function(module)

        spec.loader.exec_module = exec_module
        return spec


if RANK is not None and NAME in AFTER:
    sys.meta_path.insert(0, After(*AFTER[NAME]))
elif RANK is not None and NAME in AT_START:
    AT_START[NAME]()
