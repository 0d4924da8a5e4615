"""Activations wait in host memory for the backward pass: each layer's are copied there,
and back one layer ahead.

Used if transformer-engine's own offloading is not: by the fine-tune on transformers,
and by the worker without transformer-engine. The copies run on their own stream. In the
forward pass a layer's device memory is released when the next layer has ended; in the
backward pass a layer is copied back while the layer after it computes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import device

SMALLEST = 2**20
"""Bytes; a smaller tensor stays on the GPU."""
_wait_event = torch.cuda.Stream.wait_event
"""The method itself: `worker.clock` measures the one of the class as a wait for other
ranks, and a copy is none."""


def install(layers: Sequence[Any], *, gpu: bool) -> None:
    """Offload what ``layers`` save for the backward pass, in their order, except the
    last one's, which is used first.

    Without a GPU every tensor is copied, in the same memory: that only tests the order
    of the copies.
    """
    copies = _Copies(gpu)
    newest = _Newest()
    smallest = 0
    if gpu:
        smallest = SMALLEST
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1
        layer.forward = _offloaded(
            layer, copies, newest, first=index == 0, smallest=None if last else smallest
        )


class _Newest:
    """The group of the layer that was called last."""

    group: "_Group | None" = None


def _offloaded(
    layer: Any, copies: "_Copies", newest: _Newest, *, first: bool, smallest: int | None
) -> Callable[..., Any]:
    """The layer's ``forward`` with its saved tensors in a group."""
    forward = layer.forward

    @functools.wraps(forward)
    def offloaded(*args: Any, **kwargs: Any) -> Any:
        # Under FSDP the weights exist only now.
        weights = set()
        for parameter in layer.parameters():
            weights.add(parameter.untyped_storage().data_ptr())
        group = newest.group = _Group(copies, None if first else newest.group, weights, smallest)
        with torch.autograd.graph.saved_tensors_hooks(group.pack, group.unpack):
            output = forward(*args, **kwargs)
        if group.before is not None:
            group.before.release()
        return output

    return offloaded


class _Group:
    """Tensors that one layer saves in one forward pass."""

    def __init__(
        self, copies: "_Copies", before: "_Group | None", weights: set[int], smallest: int | None
    ) -> None:
        self.copies, self.before, self.weights, self.smallest = copies, before, weights, smallest
        self.device: list[Tensor | None] = []
        self.host: list[Tensor] = []
        self.uses: list[int] = []
        self.places: dict[Any, int] = {}
        self.copied: Any = None
        """Event of the newest copy."""
        self.on_device = True

    def pack(self, tensor: Tensor) -> Tensor | int:
        """The place of ``tensor`` in this group, or itself. Detached: an operation's
        output would refer to itself."""
        bytes_ = tensor.numel() * tensor.element_size()
        storage = tensor.untyped_storage().data_ptr()
        if self.smallest is None or bytes_ < self.smallest or storage in self.weights:
            return tensor.detach()
        # While the group holds its tensors, no other tensor has the same address.
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key not in self.places:
            self.places[key] = len(self.host)
            self.uses.append(0)
            self.device.append(tensor.detach())
            self.host.append(torch.empty_like(tensor, device="cpu", pin_memory=self.copies.gpu))
            self.copied = self.copies.start(self.host[-1:], [tensor])
        self.uses[self.places[key]] += 1
        return self.places[key]

    def release(self) -> None:
        """Give the device memory back once the copies have ended."""
        self.copies.wait(self.copied)
        self.device, self.places, self.on_device = [], {}, False

    def reload(self) -> None:
        """Begin to copy the tensors back, unless that was done."""
        if self.on_device:
            return
        back = []
        for tensor in self.host:
            back.append(torch.empty_like(tensor, device=self.copies.device))
        self.copied = self.copies.start(back, self.host)
        self.device, self.host, self.on_device = [*back], [], True

    def unpack(self, packed: Tensor | int) -> Tensor:
        """The tensor of ``pack``, on the device. The layer before this one is copied
        back meanwhile."""
        self.reload()
        if self.before is not None:
            self.before.reload()
            self.before = None
        if isinstance(packed, Tensor):
            return packed
        self.copies.wait(self.copied)
        tensor = self.device[packed]
        assert tensor is not None, "the backward pass runs once"
        self.uses[packed] -= 1
        if not self.uses[packed]:
            self.device[packed] = None
        return tensor


class _Copies:
    """Copies on a stream of their own; without a GPU they are made at once."""

    def __init__(self, gpu: bool) -> None:
        self.gpu = gpu
        self.device = device.current(gpu=gpu)
        self._stream: Any = torch.cuda.Stream() if gpu else None

    def start(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Any:
        """Copy after the work that is queued now; the event of its end."""
        if not self.gpu:
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source)
            return None
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source, non_blocking=True)
            return self._stream.record_event()

    def wait(self, event: Any) -> None:
        """Let later work wait for ``event``."""
        if event is not None:
            _wait_event(torch.cuda.current_stream(), event)
