"""Weights, gradients and optimizer states cut over all data-parallel ranks: megatron.core's wrapper of torch's FSDP2.

Each layer is one unit: gathered before it computes, and its gradients are reduced in every micro-batch.
"""

from typing import Any

import torch
from megatron.core.distributed import TorchFullyShardedDataParallel
from megatron.core.distributed.torch_fully_sharded_data_parallel_config import TorchFullyShardedDataParallelConfig

from benchrun.spec.megatron import Values


class FullySharded(TorchFullyShardedDataParallel):  # type: ignore[misc]  # megatron.core has no types
    """A chunk of the model on its ranks."""

    def __init__(self, config: Any, ddp: Values, chunk: Any) -> None:
        super().__init__(config, TorchFullyShardedDataParallelConfig(**ddp), chunk)

    def finish_grad_sync(self, *_: Any, **__: Any) -> None:
        """FSDP2 has reduced the gradients. megatron.core 0.16 passes this an argument that its own wrapper lacks."""


def cut_moments(adam: Any) -> None:
    """Give each parameter of transformer-engine's FusedAdam FP32 moments of the size of this rank's part.

    By itself it makes them as large as the whole parameter (2.11: ``torch.empty(param.shape)``) and updates the first
    part of them.
    """
    for group in adam.param_groups:
        for parameter in group["params"]:
            for moment in ("exp_avg", "exp_avg_sq"):
                adam.state[parameter][moment] = torch.zeros_like(parameter.to_local(), dtype=torch.float32)
