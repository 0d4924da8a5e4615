"""The profiled steps, which follow the measured ones: under torch's profiler, or in the
range that nsys records."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from benchrun.rundir.artifacts import PROFILE
from benchrun.runspec.spec import TrainingSpec

from . import ranks


def steps_made(spec: TrainingSpec) -> int:
    """Steps after the measured ones: the profiled ones, and those before them that warm
    the profiler up."""
    if spec.profiled_steps is None:
        return 0
    return spec.profiled_steps[1] - spec.training.steps


def profile(spec: TrainingSpec, step: Callable[[], Any]) -> None:
    """Make the profiled steps of the run, if it has some. Every rank calls this; those
    of ``profile.ranks`` record."""
    if spec.profiled_steps is None:
        return
    recorded = torch.distributed.get_rank() in spec.profile.ranks
    ranks.synchronised()
    if spec.profile.tool == "kineto":
        _with_torch(spec, step, recorded=recorded)
    else:
        _within_cuda_range(spec, step, recorded=recorded)
    ranks.synchronised()


def _with_torch(spec: TrainingSpec, step: Callable[[], Any], *, recorded: bool) -> None:
    """Write profile/rankN.json.gz; the trace marks each step."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if spec.gpu != "CPU":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    warmup = steps_made(spec) - spec.profile.steps
    profiler = torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(
            wait=0, warmup=warmup, active=spec.profile.steps, repeat=1
        ),
        on_trace_ready=lambda trace: trace.export_chrome_trace(str(_file())),
        record_shapes=True,
    )
    with profiler if recorded else nullcontext():
        for _ in range(steps_made(spec)):
            step()
            if recorded:
                profiler.step()


def _file() -> Path:
    folder = Path(PROFILE)
    folder.mkdir(exist_ok=True)
    return folder / f"rank{torch.distributed.get_rank()}.json.gz"


def _within_cuda_range(spec: TrainingSpec, step: Callable[[], Any], *, recorded: bool) -> None:
    """Open and close the range that nsys records, with a marked range for each step."""
    cudart = torch.cuda.cudart()
    if recorded:
        torch.cuda.check_error(cudart.cudaProfilerStart())
    for number in range(spec.training.steps + 1, spec.training.steps + steps_made(spec) + 1):
        with torch.cuda.nvtx.range(f"step {number}"):
            step()
    torch.cuda.synchronize()
    if recorded:
        torch.cuda.check_error(cudart.cudaProfilerStop())
