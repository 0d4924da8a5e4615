"""Weights, gradients and optimizer states cut over all data-parallel ranks.

On GPUs by megatron.core's own FSDP, on CPUs by its wrapper of torch's FSDP2. Each layer
is one unit: gathered before it computes, and its gradients are reduced in every
micro-batch.
"""

from typing import Any

import torch
from megatron.core.distributed import DistributedDataParallelConfig, TorchFullyShardedDataParallel
from megatron.core.distributed.torch_fully_sharded_data_parallel_config import (
    TorchFullyShardedDataParallelConfig,
)
from megatron.core.utils import is_te_min_version

from benchrun.runspec.megatron import Megatron
from benchrun.runspec.spec import TrainingSpec

FUSES_GRADIENTS = (
    "megatron_fsdp_main_params_dtype" in DistributedDataParallelConfig.__dataclass_fields__
    and is_te_min_version("2.10")
)
"""Whether products can add their gradients to FSDP's buffer themselves: megatron.core
0.17, transformer-engine 2.10."""


class TorchFullySharded(TorchFullyShardedDataParallel):  # type: ignore[misc]  # megatron.core has no types
    """A chunk of the model on its ranks, for CPUs."""

    def finish_grad_sync(self, *_: Any, **__: Any) -> None:
        """FSDP2 has reduced the gradients. megatron.core 0.16 passes this an argument
        that its own wrapper lacks."""


def fully_sharded(spec: TrainingSpec, config: Any, core: Megatron, chunk: Any) -> Any:
    """``chunk`` of the model on its ranks."""
    if spec.gpu == "CPU":
        return TorchFullySharded(config, TorchFullyShardedDataParallelConfig(**core.ddp), chunk)
    # It is for GPUs.
    from megatron.core.distributed.fsdp.mcore_fsdp_adapter import (
        FullyShardedDataParallel,
    )

    ddp = DistributedDataParallelConfig(use_megatron_fsdp=True, **core.ddp, **core.sharding)
    return FullyShardedDataParallel(config, ddp, chunk)


def cut_moments(adam: Any) -> None:
    """Give each parameter of transformer-engine's FusedAdam FP32 moments of the size of
    this rank's part.

    By itself it makes them as large as the whole parameter (2.11:
    ``torch.empty(param.shape)``) and updates the first part of them.
    """
    for group in adam.param_groups:
        for parameter in group["params"]:
            for moment in ("exp_avg", "exp_avg_sq"):
                adam.state[parameter][moment] = torch.zeros_like(
                    parameter.to_local(), dtype=torch.float32
                )
