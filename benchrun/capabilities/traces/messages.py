"""Arguments of Kineto's events: collectives, process groups, matrix products."""

import json
import re
from collections.abc import Iterator
from typing import Any

from .events import Group, Message, Shape
from .properties import documents

BYTES = {
    "double": 8,
    "long": 8,
    "float": 4,
    "int": 4,
    "bfloat16": 2,
    "half": 2,
    "short": 2,
    "char": 1,
    "byte": 1,
    "bool": 1,
}
"""Bytes of an element, by the name that PyTorch gives its type; names of FP8 types
begin with float8.
"""
COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "dispatch": "all_to_all",
    "combine": "all_to_all",
    "crossdevicereduce": "all_reduce",
    "peerreduce": "all_reduce",
    "gpumcrs": "reduce_scatter",
    "gpurrrs": "reduce_scatter",
    "gpumcag": "all_gather",
    "gpurwag": "all_gather",
    "gpurrag": "all_gather",
    "suminplacegpu": "all_reduce",
    "broadcast": "broadcast",
    "sendrecv": "send_recv",
    "send": "send",
    "recv": "recv",
    "reduce": "reduce",
    "barrier": "barrier",
}
"""Letters of a collective's name, in PyTorch, NCCL and kernels -> its name here; the
first that fits counts.

Tokens are dispatched to experts and combined by an all-to-all; gpu... are kernels of
Transformer Engine's user buffers.
"""
LARGER_OUTPUT = frozenset({"all_gather", "recv"})
PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
"""Operators that compute matrix products."""


def whole(value: Any) -> int:
    """A number, which old traces write as text; -1 if there is none."""
    if type(value) is int:
        return value
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1


def groups_of(stated: Any) -> Iterator[Group]:
    """The process groups of ``distributedInfo``."""
    for group in documents(stated):
        if ranks := _ranks(group.get("ranks")):
            yield Group(str(group.get("pg_name", "")), str(group.get("pg_desc", "")), ranks)


def _ranks(value: Any) -> tuple[int, ...] | None:
    """A list of ranks, which may be a text that was cut."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, list) and all(isinstance(rank, int) for rank in value):
        return tuple(value)
    return None


def message_of(args: dict[str, Any]) -> Message | None:
    """The collective that the arguments of a kernel or operator describe; None for one
    that is not known.
    """
    name = collective_name(str(args["Collective name"]))
    if name is None:
        return None
    elements = args.get("Out msg nelems" if name in LARGER_OUTPUT else "In msg nelems")
    dtype = str(args.get("dtype", "")).lower()
    size = 1 if dtype.startswith("float8") else BYTES.get(dtype)
    group = (
        str(args.get("Process Group Description") or args.get("Process Group Name") or "") or None
    )
    size_of_group = whole(args.get("Group size"))
    return Message(
        name,
        group,
        _ranks(args.get("Process Group Ranks")),
        size_of_group if size_of_group > 0 else None,
        elements * size if isinstance(elements, int) and size else None,
    )


def collective_name(text: str) -> str | None:
    """The name of the collective in ``text``, the name of a kernel or a function; None
    if there is none.
    """
    letters = re.sub("[^a-z]", "", text.lower())
    return next((name for key, name in COLLECTIVES.items() if key in letters), None)


def shape_of(name: str, args: dict[str, Any]) -> Shape | None:
    """The product that an operator computes; None if the profiler did not record
    shapes.
    """
    first = 1 if "add" in name else 0
    sizes = args.get("Input Dims") or []
    types = args.get("Input type") or []
    if len(sizes) < first + 2 or len(types) <= first:
        return None
    left = sizes[first]
    right = sizes[first + 1]
    if len(left) not in (2, 3) or len(left) != len(right) or left[-1] != right[-2]:
        return None
    batch = left[0] if len(left) == 3 else 1
    return Shape(name, str(types[first]), batch, left[-2], right[-1], left[-1])
