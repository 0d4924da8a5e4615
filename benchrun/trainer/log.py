"""The worker's log: the configuration, Megatron-LM's line for each step, the peak memory."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import resource
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import torch

from benchrun.spec.runspec import TrainingSpec


def configuration(spec: TrainingSpec, layers: str, initial_weights: str, packages: dict[str, str | None]) -> str:
    """The resolved configuration: a block for people and a line of JSON. ``packages``: versions by name."""
    gpu = spec.gpu != "CPU"
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        **packages,
        "cuda": torch.version.cuda if gpu else None,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if gpu else None,
    }
    facts: dict[str, Any] = {
        "recipe": spec.recipe,
        "task": spec.task,
        "device": torch.cuda.get_device_name() if gpu else "cpu",
        "backend": "nccl" if gpu else "gloo",
        "num_gpus": spec.num_gpus,
        "precision": spec.precision,
        "fp8": spec.training.fp8.model_dump() if spec.precision == "fp8" else None,
        "layers": layers,
        "initial_weights": initial_weights,
        "seq_length": spec.seq_length,
        "micro_batch_size": spec.mbs,
        "global_batch_size": spec.gbs,
        "planned_steps": spec.training.steps,
        "num_layers": spec.model.num_layers,
        "dp": spec.dp,
        **spec.layout.model_dump(),
        "model": spec.model.model_dump(exclude={"num_layers"}),
        "training": spec.training.model_dump(exclude={"steps", "fp8"}),
        "data": spec.data.model_dump(),
        "versions": versions,
    }
    width = max(map(len, facts))
    block = "".join(f"  {name:<{width}}  {value}\n" for name, value in facts.items())
    return f"benchrun worker\n{block}benchrun config: {json.dumps(facts)}"


@dataclass(frozen=True)
class StepResult:
    """The printed values of one step."""

    step: int
    time_s: float
    lr: float
    loss: float
    grad_norm: float | None
    skipped: bool


def step_line(spec: TrainingSpec, result: StepResult) -> str:
    """Megatron-LM's step line, as core 0.17 and later print it: a NaN loss is counted, not printed."""
    finite = math.isfinite(result.loss)
    fields = [
        f" [{datetime.now():%Y-%m-%d %H:%M:%S.%f}] iteration {result.step:8d}/{spec.training.steps:8d}",
        f" consumed samples: {result.step * spec.gbs:12d}",
        f" elapsed time per iteration (ms): {1000 * result.time_s:.1f}",
        f" learning rate: {result.lr:.6E}",
        f" global batch size: {spec.gbs:5d}",
        *([f" lm loss: {result.loss:.6E}"] if finite else []),
        " loss scale: 1.0",
        *([f" grad norm: {result.grad_norm:.3f}"] if result.grad_norm is not None else []),
        f" number of skipped iterations: {int(result.skipped):3d}",
        f" number of nan iterations: {int(not finite):3d}",
    ]
    return " |".join(fields) + " |"


def say(text: str) -> None:
    """Print and flush, because the log may be read while it grows."""
    print(text, flush=True)  # noqa: T201


def usage(spec: TrainingSpec) -> str:
    """Peak memory of this rank, and the UTC time of the last step, by which telemetry finds the measured steps."""
    ended = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if spec.gpu != "CPU":
        used = {"peak_memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}
    else:
        used = {"peak_rss_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
    return f"benchrun done: {json.dumps({'steps': spec.training.steps, **used, 'ended': ended})}"


def version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "present, version unknown"
