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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME = os.environ.get("INJECT", "")
ALONE = "RANK" not in os.environ and sys.orig_argv[2:4] == ["-m", "benchrun.worker"]
"""A single rank needs no torchrun, which sets RANK."""
RANK = "0" if ALONE else os.environ.get("RANK")
SLOW = "0" if ALONE else "1"
"""The rank of causes that concern one rank."""
HOGS = 2
SECONDS = float(os.environ.get("INJECT_SECONDS") or 0.0)
"""How long a sleep or a pause lasts; of others how much: times the usual heap, MiB to write, times per layer."""
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


def stalls(module: Any) -> None:
    """One sample in 40 takes long, as from a file system that others load."""
    get = module.Mock.__getitem__

    def slower(self: Any, index: int) -> Any:
        time.sleep(SECONDS if index % 40 < 2 else 0.0)
        return get(self, index)

    module.Mock.__getitem__ = slower


def collate(module: Any) -> None:
    """The function that puts samples together computes long in Python."""
    together = module.at_positions

    def slower(*args: Any) -> Any:
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            sorted(range(1000), reverse=True)
        return together(*args)

    module.at_positions = slower


def after_steps(function: Callable[[int], None]) -> Callable[[Any], None]:
    """What calls ``function`` with the number of each step after it."""

    def inject(module: Any) -> None:
        collect = module.ranks.collect_garbage

        def slower(spec: Any, step: int) -> None:
            collect(spec, step)
            function(step)

        module.ranks.collect_garbage = slower

    return inject


def write(mebibytes: int) -> None:
    with Path(f"injected-{RANK}").open("wb") as file:
        for _ in range(mebibytes):
            file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())


def log_steps(step: int) -> None:
    write(int(SECONDS))


def save_files(step: int) -> None:
    write(int(SECONDS) if step and step % 8 == 0 else 0)


def busy_thread(module: Any) -> None:
    """A thread that computes in Python and so holds the interpreter's lock; less where each launch waits for it."""
    pause = 0.01 if module.torch.cuda.is_available() else 0.0

    def compute() -> None:
        while True:
            sum(range(100_000))
            if pause:
                time.sleep(pause)

    threading.Thread(target=compute, daemon=True).start()


def in_layers(function: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """What passes the output of every layer through ``function``, with its module."""

    def inject(module: Any) -> None:
        build = module.build.build_model

        def built(*args: Any) -> Any:
            chunks = build(*args)
            for layer in (each for chunk in chunks for each in chunk.modules()):
                if type(layer).__name__ == "TransformerLayer":
                    layer.register_forward_hook(lambda own, _, out: (function(module, out[0]), *out[1:]))
            return chunks

        module.build.build_model = built

    return inject


def cast(module: Any, x: Any) -> Any:
    """To another type and back, again and again."""
    for _ in range(int(SECONDS)):
        x = x.double().to(x.dtype)
    return x


def to_host(module: Any, x: Any) -> Any:
    """A copy to memory of the host that is not pinned, and back."""
    return x.cpu().to(x.device)


def synchronise(module: Any, x: Any) -> Any:
    """The host waits for the device, then does what takes it as long as the launches of a few layers."""
    for _ in range(int(SECONDS)):
        float(x.detach().flatten()[0])
    return x


def compute_in_python(_: Any, x: Any) -> Any:
    """A hook of a library that counts or checks something after each layer."""
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        sorted(range(1000), reverse=True)
    return x


def turns(module: Any) -> None:
    """The ranks compute long by turns, as with samples of uneven length."""
    step = module._forward_step
    counted = iter(range(1 << 30))

    def slower(*args: Any) -> Any:
        if next(counted) // 8 % 2 == int(RANK or 0):
            time.sleep(SECONDS)
        return step(*args)

    module._forward_step = slower


def unfused_attention(module: Any) -> None:
    """transformer-engine may use no attention kernel of its own."""
    from megatron.core.models.common.language_module.language_module import LanguageModule

    names = {"NVTE_FLASH_ATTN": "0", "NVTE_FUSED_ATTN": "0", "NVTE_UNFUSED_ATTN": "1"}
    LanguageModule._set_attention_backend = lambda self: os.environ.update(names)


def uneven_stages(module: Any) -> None:
    """The last stage computes its micro-batch several times."""
    step = module._forward_step

    def slower(positions: Any, iterator: Any, model: Any) -> Any:
        batch = next(iterator)
        for _ in range(int(SECONDS) if RANK == SLOW else 0):
            matrix = module.torch.ones(512, 512)
            module.torch.mm(matrix, matrix)
        return step(positions, iter([batch]), model)

    module._forward_step = slower


def slow_reduce(module: Any) -> None:
    """Each sum over the ranks sends many times as much on all of them, as through a slow network."""
    reduce = module.torch.distributed.all_reduce

    def slower(tensor: Any, *args: Any, **named: Any) -> Any:
        for _ in range(int(SECONDS)):
            reduce(tensor.clone(), group=named.get("group"))
        return reduce(tensor, *args, **named)

    module.torch.distributed.all_reduce = slower


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
    "slow_loader": ("benchrun.worker.data", slow_loader),
    "slow_rank": ("benchrun.worker.train", slow_rank),
    "garbage": ("benchrun.worker.train", garbage),
    "unfused_norms": ("benchrun.worker.layers", unfused_norms),
    "checkpoints": ("benchrun.worker.train", checkpoints),
    "stalls": ("benchrun.worker.data", stalls),
    "collate": ("benchrun.worker.data", collate),
    "log_steps": ("benchrun.worker.train", after_steps(log_steps)),
    "save_files": ("benchrun.worker.train", after_steps(save_files)),
    "busy_thread": ("benchrun.worker.train", busy_thread),
    "casts": ("benchrun.worker.train", in_layers(cast)),
    "to_host": ("benchrun.worker.train", in_layers(to_host)),
    "synchronise": ("benchrun.worker.train", in_layers(synchronise)),
    "hooks": ("benchrun.worker.train", in_layers(compute_in_python)),
    "turns": ("benchrun.worker.train", turns),
    "unfused_attention": ("benchrun.worker.train", unfused_attention),
    "uneven_stages": ("benchrun.worker.train", uneven_stages),
    "slow_reduce": ("benchrun.worker.train", slow_reduce),
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
