"""The worker's log: the configuration, Megatron-LM's line for each step, the peak
memory."""

import json
import math
import platform
import resource
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from benchrun.model import Frozen
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import GIB

from . import device


def configuration(spec: TrainingSpec, packages: dict[str, str], **facts: str) -> str:
    """The resolved configuration: a block for people, then lines of JSON. ``packages``:
    name -> module.

    srun joins the output of the nodes in pieces of 1,024 bytes (SLURM_IO_MAX_MSG_LEN),
    so a longer line may be torn by a line of another node. Each part of the
    configuration has a line of its own.
    """
    gpu = spec.gpu != "CPU"
    config: dict[str, Any] = {
        "recipe": spec.recipe,
        "task": spec.task,
        "num_gpus": spec.num_gpus,
        "precision": spec.precision,
        "seq_length": spec.seq_length,
        "dp": spec.dp,
        "fp8": spec.training.fp8.model_dump() if spec.precision == "fp8" else None,
        "device": device.name(gpu=gpu),
        "backend": "nccl" if gpu else "gloo",
        **facts,
        "micro_batch_size": spec.mbs,
        "global_batch_size": spec.gbs,
        "planned_steps": spec.training.steps,
        "num_layers": spec.model.num_layers,
        **spec.layout.model_dump(),
        "model": spec.model.model_dump(exclude={"num_layers"}),
        "training": spec.training.model_dump(exclude={"steps", "fp8"}),
        "data": spec.data.model_dump(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            # None for a module that this run has not imported.
            **{
                name: getattr(sys.modules.get(module), "__version__", None)
                for name, module in packages.items()
            },
            "cuda": torch.version.cuda if gpu else None,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if gpu else None,
        },
    }
    width = max(map(len, config))
    lines = ["benchrun worker"]
    for name, value in config.items():
        lines.append(f"  {name:<{width}}  {value}")
    parts = [{name: config.pop(name)} for name in ("model", "training", "data")]
    for part in (config, *parts):
        lines.append(f"benchrun config: {json.dumps(part)}")
    return "\n".join(lines)


def step_line(
    spec: TrainingSpec,
    step: int,
    step_time_s: float,
    *,
    lr: float,
    loss: float,
    grad_norm: float | None,
    skipped: bool,
) -> str:
    """Megatron-LM's step line, as core 0.17 and later print it: a NaN loss is counted,
    not printed."""
    finite = math.isfinite(loss)
    fields = [
        f" [{datetime.now():%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/{spec.training.steps:8d}",
        f" consumed samples: {step * spec.gbs:12d}",
        f" elapsed time per iteration (ms): {1000 * step_time_s:.1f}",
        f" learning rate: {lr:.6E}",
        f" global batch size: {spec.gbs:5d}",
    ]
    if finite:
        fields.append(f" lm loss: {loss:.6E}")
    fields.append(" loss scale: 1.0")
    if grad_norm is not None:
        fields.append(f" grad norm: {grad_norm:.3f}")
    fields.append(f" number of skipped iterations: {int(skipped):3d}")
    fields.append(f" number of nan iterations: {int(not finite):3d}")
    return " |".join(fields) + " |"


def say(text: str) -> None:
    """Print and flush, because the log may be read while it grows."""
    print(text, flush=True)  # noqa: T201


def keep(name: str, file: str, result: Frozen) -> None:
    """Write a result into its file, and into a line of the log without values of each
    rank, of which there are many."""
    Path(file).write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
    left_out = {field for field in type(result).model_fields if "_of_ranks_" in field}
    left_out.add("schema_version")
    say(f"benchrun {name}: {result.model_dump_json(exclude=left_out)}")


def usage(spec: RunSpec) -> str:
    """Peak memory of this rank, and the UTC time of the last step, by which telemetry
    finds the measured steps."""
    ended = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if spec.gpu != "CPU":
        used = {"peak_memory_gib": round(torch.cuda.max_memory_allocated() / GIB, 2)}
    else:
        used = {
            "peak_rss_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
        }
    return f"benchrun done: {json.dumps({'steps': spec.planned_steps, **used, 'ended': ended})}"
