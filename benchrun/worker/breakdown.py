"""The time of a step by kind of kernel: profiles one more step and writes
breakdown.json and a line of the log."""

import re
import time
from collections.abc import Callable, Iterable
from statistics import mean
from typing import Any

import torch

from benchrun.rundir.artifacts import BREAKDOWN, Breakdown
from benchrun.runspec.spec import TrainingSpec

from . import log, ranks
from .host import HostClock, queued, scheduled

KINDS = {
    # The first match counts. Kernels of NCCL, transformer-engine, cuDNN, cuBLAS and
    # CUTLASS, and torch's on CPUs.
    "communication": re.compile(
        r"nccl|userbuffers|gloo:|deep_ep::|nvshmem|multimem_|cross_device_reduce"
    ),
    "attention": re.compile(
        r"attention|fused_attn|flash|fmha|sdpa|compute_dot_do_o|convert_dq_to_16bits"
    ),
    "matmul": re.compile(
        r"gemm|gemv|nvjet|cutlass|cublas|xmma|splitk|aten::(mm|addmm|bmm|baddbmm)$"
    ),
    "other": re.compile(""),
}
FIRST = ("matmul", "attention", "other", "communication")
"""Priority where kernels overlap: any other kernel hides communication."""
NOT_COUNTED = -1.0
"""Value in place of the wait for a core if the system does not count it."""


def measure(spec: TrainingSpec, step: Callable[[], Any], host: HostClock) -> None:
    """Profile ``step`` if ``training.breakdown`` is set. Every rank calls this;
    ``host`` times its loader."""
    if not spec.training.breakdown:
        return
    gpu = spec.gpu != "CPU"
    activity = torch.profiler.ProfilerActivity.CPU
    device = torch.autograd.DeviceType.CPU
    if gpu:
        activity = torch.profiler.ProfilerActivity.CUDA
        device = torch.autograd.DeviceType.CUDA
    ranks.synchronised()
    with torch.profiler.profile(activities=[activity]) as profiler:
        waited_s = host.waited_for_data_s
        before = scheduled()
        started = time.perf_counter()
        step()
        seconds = ranks.synchronised() - started
        waited_s = host.waited_for_data_s - waited_s
        queued_s = queued(before, scheduled()) if before else NOT_COUNTED
    kernels = []
    for event in profiler.events():
        annotation = event.is_user_annotation
        if event.device_type == device and is_kernel(event.name, annotation=annotation, gpu=gpu):
            kernels.append((kind(event.name), event.time_range.start, event.time_range.end))
    parts = {"step_s": seconds}
    for name, value in split(kernels).items():
        parts[name] = value / 1e6
    of_ranks = _gathered([*parts.values(), waited_s, queued_s, float(bool(kernels))], gpu=gpu)
    if torch.distributed.get_rank() != 0:
        return
    *by_part, waited, queues, saw_kernels = zip(*of_ranks, strict=True)
    if not all(saw_kernels):  # the whole step would count as idle
        log.say(
            "benchrun: no breakdown, the profiler saw no kernel; another one may hold the GPU's counters"
        )
        return
    of_parts = dict(zip(parts, by_part, strict=True))
    means = {name: round(mean(values), 6) for name, values in of_parts.items()}
    busy = sum(means[f"{name}_s"] for name in FIRST)
    document = Breakdown(
        **means,
        idle_s=round(max(means["step_s"] - busy, 0.0), 6),
        communication_of_ranks_s=_rounded(of_parts["communication_s"]),
        data_of_ranks_s=_rounded(waited),
        queued_of_ranks_s=_rounded(queues) if NOT_COUNTED not in queues else (),
    )
    log.keep("breakdown", BREAKDOWN, document)


def _gathered(values: list[float], *, gpu: bool) -> list[list[float]]:
    """``values`` of every rank, in order. NCCL gathers what is on GPUs, gloo what is
    not."""
    own = torch.tensor(values, dtype=torch.float64, device="cuda" if gpu else "cpu")
    gathered = []
    for _ in range(torch.distributed.get_world_size()):
        gathered.append(torch.empty_like(own))
    torch.distributed.all_gather(gathered, own)
    return [each.tolist() for each in gathered]


def _rounded(seconds: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in seconds)


def is_kernel(name: str, *, annotation: bool, gpu: bool) -> bool:
    """Whether an event is work, and no range around other events in which Python may
    run or wait.

    Torch marks the waiting for a loader and the optimizer's whole step by annotations;
    on CPUs, autograd's calls, of which hooks are a part, are events too. The kernels in
    them have events of their own.
    """
    return kind(name) != "other" or (not annotation and (gpu or name.startswith("aten::")))


def kind(name: str) -> str:
    """The kind of the kernel ``name``."""
    return next(kind for kind, pattern in KINDS.items() if pattern.search(name.lower()))


def split(kernels: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Time of each kind and of hidden communication, in the unit of ``kernels``: (kind,
    start, end)."""
    marks = []
    for name, start, end in kernels:
        marks += [(start, name, 1), (end, name, -1)]
    running = dict.fromkeys(FIRST, 0)
    seconds = dict.fromkeys((*map("{}_s".format, FIRST), "hidden_s"), 0.0)
    before = 0.0
    for now, name, change in sorted(marks):
        first = next(filter(running.get, FIRST), None)
        if first:
            seconds[f"{first}_s"] += now - before
            if running["communication"] and first != "communication":
                seconds["hidden_s"] += now - before
        running[name] += change
        before = now
    return seconds
