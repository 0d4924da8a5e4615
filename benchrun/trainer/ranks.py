"""Who this process is among the ranks, and the groups they form."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from benchrun.errors import UserError
from benchrun.spec.runspec import RunSpec

TIMEOUT_S = 600
"""A collective that takes longer has lost a rank."""


@dataclass(frozen=True)
class Place:
    """One process among all."""

    rank: int
    world_size: int
    local_rank: int


def place() -> Place:
    """From torchrun's variables, else from srun's, else alone."""
    for rank, size, local in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        # Not SLURM_NTASKS: a batch script has that too, and is no rank of its job.
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    ):
        if rank in os.environ and size in os.environ:
            return Place(int(os.environ[rank]), int(os.environ[size]), int(os.environ.get(local, os.environ[rank])))
    return Place(0, 1, 0)


def prepare_process(spec: RunSpec) -> None:
    """What must be set before torch and megatron.core are imported."""
    here = place()
    if here.world_size != spec.num_gpus:
        raise UserError(
            f"{here.world_size} ranks were started, the run needs {spec.num_gpus}",
            hint="start it through its job.sh, or with as many ranks by srun or torchrun",
        )
    if spec.num_nodes > 1 and "MASTER_ADDR" not in os.environ:
        # Else each node's ranks would wait for the first one on their own node, until the timeout.
        hint = "start it through its job.sh, or export the first node's name as MASTER_ADDR"
        raise UserError(
            f"the run has {spec.num_nodes} nodes, and MASTER_ADDR does not say where its ranks meet", hint=hint
        )
    # Whoever sets no local rank fills the nodes one after the other: on each the ranks count up.
    said = {"LOCAL_RANK", "SLURM_LOCALID"} & os.environ.keys()
    local = here.local_rank if said else here.rank % spec.cluster.gpus_per_node
    os.environ.update(RANK=str(here.rank), WORLD_SIZE=str(here.world_size), LOCAL_RANK=str(local))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    # Alone any free port will do, so that two such runs on one machine do not meet.
    os.environ.setdefault("MASTER_PORT", "0" if here.world_size == 1 else "29500")
    if spec.gpu == "CPU":
        # On a machine with GPUs megatron.core and the log would otherwise take this for a GPU run.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        # Nor take an Adam or a norm from packages whose kernels run on GPUs alone.
        for package in ("transformer_engine", "transformer_engine_torch", "apex", "amp_C"):
            sys.modules[package] = None  # type: ignore[assignment]
        # megatron.core compiles small functions by torch.compile, which on a CPU needs a C++ compiler.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # Each rank would say four times that it has neither Apex nor transformer-engine; the log says it once.
        warnings.filterwarnings("ignore", message=r".*(Apex|Transformer Engine).*not installed")
        # megatron.core 0.16 says so of its own default.
        warnings.filterwarnings("ignore", message="full scope is deprecated")
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")
        warnings.filterwarnings("ignore", message=r"The \.grad attribute of a Tensor that is not a leaf")


def refuse_without_gpu(spec: RunSpec) -> None:
    """A run for GPUs on a node that has none, or too few: two ranks on one would be refused by NCCL, at length."""
    import torch

    if spec.gpu == "CPU":
        return
    if not torch.cuda.is_available():
        raise UserError(f"the run is for {spec.gpu}, and this node has no usable GPU")
    local, visible = place().local_rank, torch.cuda.device_count()
    # A rank that sees one GPU may have been given one of its own: by srun, while torchrun shows its ranks all of them.
    if local >= visible and (visible > 1 or "LOCAL_WORLD_SIZE" in os.environ):
        raise UserError(
            f"local rank {local} has no GPU: {visible} can be seen on this node",
            hint="start fewer ranks a node, or see what CUDA_VISIBLE_DEVICES hides",
        )


def start_process_group(spec: RunSpec) -> Any:
    """Join all ranks; the device that this one computes on."""
    import torch

    gpu = spec.gpu != "CPU"
    device = torch.device("cpu")
    if gpu:
        device = torch.device("cuda", place().local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=TIMEOUT_S))
    return device


def start_groups(spec: RunSpec) -> None:
    """Join the process group and split it by the layout."""
    from megatron.core import parallel_state

    start_process_group(spec)
    layout = spec.layout
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        virtual_pipeline_model_parallel_size=layout.vp if layout.vp > 1 else None,
        context_parallel_size=layout.cp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.etp,
        create_gloo_process_groups=False,
        distributed_timeout_minutes=TIMEOUT_S // 60,
    )


def groups() -> dict[str, Any]:
    """The groups whose communication a step may wait for, by name."""
    from megatron.core import parallel_state

    data = parallel_state.get_data_parallel_group(with_context_parallel=True)
    return {"dp": data, "tp": parallel_state.get_tensor_model_parallel_group()}


def leave_groups() -> None:
    """Leave in order, so that no rank sees a closed connection."""
    import torch
    from megatron.core import parallel_state

    torch.distributed.barrier()
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()
