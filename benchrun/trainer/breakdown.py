"""The time of a step by kind of kernel: profiles one more step and writes breakdown.json and a line of the log."""

import re
import time
from collections.abc import Callable, Iterable
from statistics import mean
from typing import Any

import torch

from benchrun.spec.artifacts import BREAKDOWN, Breakdown
from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import log, ranks

KINDS = {
    # The first match counts. Kernels of NCCL, transformer-engine, cuDNN, cuBLAS and CUTLASS, and torch's on CPUs.
    "communication": re.compile(r"nccl|userbuffers|gloo:|deep_ep::|nvshmem|multimem_|cross_device_reduce"),
    "attention": re.compile(r"attention|fused_attn|flash|fmha|sdpa|compute_dot_do_o|convert_dq_to_16bits"),
    "matmul": re.compile(r"gemm|gemv|nvjet|cutlass|cublas|xmma|splitk|aten::(mm|addmm|bmm|baddbmm)$"),
    "other": re.compile(""),
}
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
        if event.device_type == device and is_kernel(event.name, annotation=event.is_user_annotation, gpu=gpu)
    ]
    parts = split(kernels)
    values = [1e6 * seconds, *parts.values(), float(bool(kernels))]
    own = torch.tensor(values, dtype=torch.float64, device="cuda" if gpu else "cpu")
    gathered = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(gathered, own)
    if torch.distributed.get_rank() != 0:
        return
    of_ranks = [each.tolist() for each in gathered]
    *means, share_of_ranks = (mean(column) for column in zip(*of_ranks, strict=True))
    if share_of_ranks < 1:  # the whole step would count as idle
        log.say("benchrun: no breakdown, the profiler saw no kernel; another one may hold the GPU's counters")
        return
    seconds_of = {name: round(value / 1e6, 6) for name, value in zip(("step_s", *parts), means, strict=True)}
    busy = sum(seconds_of[f"{name}_s"] for name in FIRST)
    seconds_of["idle_s"] = round(max(seconds_of["step_s"] - busy, 0.0), 6)
    place = 1 + FIRST.index("communication")
    waited = tuple(round(each[place] / 1e6, 6) for each in of_ranks)
    log.keep("breakdown", BREAKDOWN, Breakdown(**seconds_of, communication_of_ranks_s=waited))


def is_kernel(name: str, *, annotation: bool, gpu: bool) -> bool:
    """Whether an event is work, and no range around other events in which Python may run or wait.

    Torch marks the waiting for a loader and the optimizer's whole step by annotations; on CPUs, autograd's calls, of
    which hooks are a part, are events too. The kernels in them have events of their own.
    """
    return kind(name) != "other" or (not annotation and (gpu or name.startswith("aten::")))


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
