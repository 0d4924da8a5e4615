"""Runs of this suite -> workloads and measurements."""

import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.judge.choice import of_point
from benchrun.judge.conditions import conditions
from benchrun.judge.references import Reference, load_references
from benchrun.memory.estimate import estimate
from benchrun.model import ModelShape
from benchrun.rundir.artifacts import BREAKDOWN, CEILINGS, METRICS, Breakdown, Ceilings
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import TrainingSpec
from benchrun.vocabulary import GIB

from . import software
from .workload import Architecture, Number, Workload, architectures

FP8_NUMBERS: dict[str, Number] = {"delayed": "fp8", "tensorwise": "fp8_current"}
"""Number format by recipe of FP8; the other recipes scale blocks."""
RELEASE = re.compile(r"(?:@ ?v|\()(\d\d)\.(\d\d)")
"""Year and month of the software in a point's source: @ v25.04 or (26.04.01)."""
OWN = "runs"
"""The source of runs of this suite."""
OTHER_KERNELS, COMMUNICATION = "memory_bound+optimizer", "tp+cp+ep+bubble+dp"
"""Parts of the physics that are the other kernels, and the exposed communication, of a
profiled step."""


@dataclass(frozen=True)
class Measured:
    """One run."""

    load: Workload
    step_s: float
    breakdown: Breakdown | None
    ceilings: Ceilings | None


def workload_of_run(
    spec: TrainingSpec, source: str | None = None, stand_in: hardware.Gpu | None = None
) -> Workload:
    """The step of ``spec``. UserError for a GPU that is not in the hardware table,
    unless another stands for it."""
    gpu = hardware.gpu(spec.gpu) or stand_in
    if gpu is None:
        raise UserError(
            f"no speed of '{spec.gpu}' is known", hint=f"known: {', '.join(hardware.names())}"
        )
    origin = spec.source or spec.derived or ""
    publisher = software.publisher(origin)
    number: Number = spec.precision
    if number == "fp8":
        number = FP8_NUMBERS.get(spec.training.fp8.recipe, "mxfp8")
    stack = software.of_source(publisher) or software.of_framework(spec.framework)
    node = spec.cluster.gpus_per_node
    elsewhere = spec.source or stack != software.MEGATRON or spec.num_gpus >= gpu.gpus_per_node
    return Workload(
        model=architecture(spec),
        gpu=gpu,
        num_gpus=spec.num_gpus,
        layout=spec.layout,
        mbs=spec.mbs,
        gbs=spec.gbs,
        seq_length=spec.seq_length,
        number=number,
        task=spec.task,
        recompute=spec.training.recompute.granularity,
        policy=spec.training.recompute.policy or "",
        stack=stack,
        source=publisher if source is None else source,
        framework=spec.framework if source == OWN else "",
        release=software.release_year(RELEASE.search(origin)),
        tp_overlap=spec.training.tp_comm_overlap,
        gradient_bytes=4 if spec.training.grad_reduce_in_fp32 else 2,
        state_bytes=_state_bytes(spec),
        host="" if elsewhere else spec.framework,
        recast=_recasts(spec),
        low_attention=spec.precision == "fp8" and spec.training.fp8.dot_product_attention,
        packed=spec.packed,
        graphed=spec.training.cuda_graphs != "none",
        offloaded_bytes=_offloaded_bytes(spec),
        node=node if 0 < node < gpu.gpus_per_node and spec.num_gpus > node else 0,
    )


def published(spec: TrainingSpec) -> Reference | None:
    """The number that was published for exactly this point and framework."""
    return of_point(conditions(spec), load_references())


def _recasts(spec: TrainingSpec) -> bool:
    """Whether the optimizer casts weights to FP8 together with their transposes."""
    low_weights = spec.precision == "fp8" and spec.training.fp8.param_gather and spec.task != "lora"
    return low_weights and software.has("cast_transposes", spec.framework)


def _offloaded_bytes(spec: TrainingSpec) -> float:
    """Bytes of a micro-batch's activations that leave the GPU."""
    if not spec.training.offload_activations:
        return 0.0
    training = spec.training.model_copy(update={"offload_activations": False})
    resident = estimate(spec).activations
    return (
        max(0.0, estimate(spec.model_copy(update={"training": training})).activations - resident)
        * GIB
    )


def _state_bytes(spec: TrainingSpec) -> int:
    """Bytes that the optimizer keeps of a parameter: its master copy and two
    averages."""
    optimizer = spec.training.optimizer
    numbers = (optimizer.main_params, optimizer.exp_avg, optimizer.exp_avg_sq)
    return sum(2 if "16" in number else 4 for number in numbers)


def architecture(spec: TrainingSpec) -> Architecture:
    """The model of ``spec``, under the name that published rows give a model of its
    dimensions."""
    for model in architectures().values():
        if _dimensions(model.shape) == _dimensions(spec.model):
            return Architecture(model.name, spec.model)
    return Architecture(spec.recipe, spec.model)


_widths = attrgetter(
    "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "vocab_size"
)


def _dimensions(model: ModelShape) -> tuple[Any, ...]:
    return model.moe is None, _widths(model)


def read(folder: Path, source: str = OWN) -> Measured:
    """The run in ``folder``. UserError if it is no training, or has no step time."""
    run = RunDir(folder, read_only=True)
    if not isinstance(run.spec, TrainingSpec):
        raise UserError(f"{folder.name} is no training")
    step_time = (run.read_json(METRICS) or {}).get("step_time_s") or {}
    if not step_time.get("median"):
        raise UserError(f"{folder.name} has no step time", hint="benchrun compare RUN measures it")
    return Measured(
        workload_of_run(run.spec, source),
        float(step_time["median"]),
        run.document(BREAKDOWN, Breakdown),
        run.document(CEILINGS, Ceilings),
    )


def profiled_parts(run: Measured) -> dict[str, float]:
    """Seconds of a step by the parts of the physics that add up to them, from the
    profiled step; empty without one.

    A profiler slows the host, not the kernels: what the profiled step took longer is
    idle time. Copies to the host's memory and back are among the other kernels, and the
    physics' host waits for them.
    """
    parts = run.breakdown
    if parts is None:
        return {}
    kernels = parts.step_s - parts.idle_s
    whole = {
        "matmul": parts.matmul_s,
        "attention": parts.attention_s,
        OTHER_KERNELS: parts.other_s,
        COMMUNICATION: parts.communication_s,
    }
    for name in whole:
        whole[name] *= min(1.0, run.step_s / kernels)
    idle = max(0.0, run.step_s - kernels)
    if run.load.offloaded_bytes:
        together = whole.pop(OTHER_KERNELS) + idle
        return {**whole, f"{OTHER_KERNELS}+host": together}
    return {**whole, "host": idle}
