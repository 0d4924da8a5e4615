"""megatron.core without a GPU: replaces the CUDA device by the CPU in all calls.

This changes ``torch.cuda`` for the whole process, so only the worker installs it, for
runs on CPUs alone.
"""

from contextlib import nullcontext
from typing import Any

import torch
from megatron.core.tensor_parallel import random
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.moe import moe_utils, token_dispatcher
from torch.distributed import DeviceMesh
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
_CUDA, _TYPE = torch.Tensor.cuda, torch.Tensor.type


def install() -> None:
    """Replace the calls; once, before megatron.core is used."""
    nothing = _Nothing()
    torch.cuda.current_device = lambda: CPU  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    torch.cuda.manual_seed = torch.manual_seed  # type: ignore[assignment]
    torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()
    torch.cuda.set_rng_state = lambda state, *_: torch.set_rng_state(state)
    for name in ("Stream", "Event", "current_stream", "stream"):
        setattr(torch.cuda, name, nothing)
    from_group = DeviceMesh.from_group
    DeviceMesh.from_group = lambda group, _, **mesh: from_group(group, "cpu", **mesh)
    torch.distributed.all_gather = _all_gather
    torch.distributed.reduce_scatter = _reduce_scatter
    # Places of megatron.core that need CUDA without naming it as a device.
    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = (
            None  # tested for None, but only defined with transformer-engine
        )
    if not isinstance(multi_latent_attention.TELinear, type):  # a mock without transformer-engine
        multi_latent_attention.TELinear = _Nothing
    token_dispatcher.maybe_move_tensor_to_cpu = _to_numpy
    _OnCpu().__enter__()


def _to_numpy(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
    """Split sizes as numbers, which gloo's all-to-all needs; megatron.core converts
    only CUDA tensors."""
    if as_numpy and torch.is_tensor(tensor):
        return tensor.numpy()
    return tensor


def _all_gather(parts: list[Any], tensor: Any, group: Any = None) -> None:
    """All-gather of different sizes, which gloo lacks: ranks of one expert have
    different numbers of tokens."""
    group = group or torch.distributed.group.WORLD
    for rank, part in enumerate(parts):
        if rank == group.rank():
            part.copy_(tensor)
        torch.distributed.broadcast(part, group=group, group_src=rank)


def _reduce_scatter(output: Any, parts: list[Any], group: Any) -> None:
    """Reduce-scatter of different sizes."""
    for rank, part in enumerate(parts):
        mine = part.clone()
        torch.distributed.reduce(mine, group=group, group_dst=rank)
        if rank == group.rank():
            output.copy_(mine)


class _Nothing(nullcontext[None]):
    """A stream, event or context manager without effect."""

    def __call__(self, *_: Any, **__: Any) -> "_Nothing":
        return self

    def __getattr__(self, name: str) -> "_Nothing":
        return self


class _OnCpu(TorchFunctionMode):
    """Replaces the CUDA device by the CPU in each call of a torch function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _CUDA:
            return args[0]
        if func is _TYPE and len(args) == 1 and not kwargs:
            # The optimizer distinguishes parameters by the name of their CUDA type.
            return func(*args).replace("torch.", "torch.cuda.", 1)
        kwargs = {
            name: _on_cpu(value) for name, value in (kwargs or {}).items() if name != "pin_memory"
        }
        return func(*map(_on_cpu, args), **kwargs)


def _on_cpu(argument: Any) -> Any:
    cuda = isinstance(argument, (str, torch.device)) and str(argument).startswith("cuda")
    if cuda:
        return CPU
    return argument
