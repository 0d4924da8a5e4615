"""The time of a step by kind of kernel: profiles one more step and writes breakdown.json and a line of the log."""

import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from benchrun.spec.artifacts import BREAKDOWN, Breakdown
from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import log, ranks

KINDS = {
    # The first match counts. Kernels of NCCL, transformer-engine, cuDNN, cuBLAS and CUTLASS, and torch's on CPUs.
    "communication": re.compile(r"nccl|userbuffers|gloo:"),
    "attention": re.compile(r"attention|flash|fmha|sdpa"),
    "matmul": re.compile(r"gemm|nvjet|cutlass|xmma|splitk|aten::(mm|addmm|bmm|baddbmm)$"),
    "other": re.compile(""),
}
LOADER = "enumerate(DataLoader)"
"""Torch marks the waiting for a data loader so, which is no kernel."""
FIRST = ("matmul", "attention", "other", "communication")
"""Priority where kernels overlap: any other kernel hides communication."""


def measure(spec: TrainingSpec, step: Callable[[], Any]) -> None:
    """Profile ``step`` if ``training.breakdown`` is set. Every rank calls this."""
    if not spec.training.breakdown:
        return
    gpu = spec.gpu != "CPU"
    activity = torch.profiler.ProfilerActivity.CUDA if gpu else torch.profiler.ProfilerActivity.CPU
    device = torch.autograd.DeviceType.CUDA if gpu else torch.autograd.DeviceType.CPU
    ranks.synchronised()
    with torch.profiler.profile(activities=[activity]) as profiler:
        started = time.perf_counter()
        step()
        seconds = ranks.synchronised() - started
    kernels = [
        (kind(event.name), event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type == device and not event.name.startswith(LOADER)
    ]
    parts = split(kernels)
    values = [1e6 * seconds, *parts.values(), float(bool(kernels))]
    total = torch.tensor(values, dtype=torch.float64, device="cuda" if gpu else "cpu")
    torch.distributed.all_reduce(total)
    *means, share_of_ranks = (total / torch.distributed.get_world_size()).tolist()
    if torch.distributed.get_rank() != 0:
        return
    if share_of_ranks < 1:  # the whole step would count as idle
        log.say("benchrun: no breakdown, the profiler saw no kernel; another one may hold the GPU's counters")
        return
    mean = {name: round(value / 1e6, 6) for name, value in zip(("step_s", *parts), means, strict=True)}
    busy = sum(mean[f"{name}_s"] for name in FIRST)
    mean["idle_s"] = round(max(mean["step_s"] - busy, 0.0), 6)
    log.keep("breakdown", BREAKDOWN, Breakdown.model_validate(mean))


def kind(name: str) -> str:
    """The kind of the kernel ``name``."""
    return next(kind for kind, pattern in KINDS.items() if pattern.search(name.lower()))


def split(kernels: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Time of each kind and of hidden communication, in the unit of ``kernels``: (kind, start, end)."""
    marks = sorted(mark for name, start, end in kernels for mark in ((start, name, 1), (end, name, -1)))
    running = dict.fromkeys(FIRST, 0)
    spent, hidden, before = dict.fromkeys(FIRST, 0.0), 0.0, 0.0
    for now, name, change in marks:
        if first := next((each for each in FIRST if running[each]), None):
            spent[first] += now - before
            if running["communication"] and first != "communication":
                hidden += now - before
        running[name] += change
        before = now
    return {**{f"{name}_s": value for name, value in spent.items()}, "hidden_s": hidden}
