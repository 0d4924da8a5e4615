"""Terms that every package uses, each defined once."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Literal, NamedTuple

Precision = Literal["fp32", "bf16", "fp8"]
Task = Literal["pretrain", "sft", "lora"]
Better = Literal["lower", "higher", "equal"]
"""Direction of a metric."""

HARD = ("recipe", "task", "gpu", "num_gpus", "precision", "num_layers", "dimensions", "seq_length", "gbs", "settings")
"""Conditions that must agree before two numbers may be compared."""

NO_WORK = frozenset({"max_position_embeddings", "moe.aux_loss_coeff", "moe.force_balance"})
"""Dimensions that do not change the work per token: room for longer sequences, and how experts are fed."""
Size = int | str | None


class Reduced(NamedTuple):
    """One dimension: its size in the proxy and in the whole model."""

    name: str
    """As in `ModelShape`; ``moe.num_experts`` for one of the experts."""
    size: Size
    """Size in the proxy."""
    whole: Size
    """Size in the recipe's model."""

    def __str__(self) -> str:
        return f"{self.name} {self.size} of {self.whole}"


def flat(model: Any) -> dict[str, Any]:
    """Every dimension of a model, a mapping or a `ModelShape`, by its name in a `Reduced`."""
    sizes = dict(model)
    experts = dict(sizes.pop("moe", None) or ())
    return sizes | {f"moe.{name}": size for name, size in experts.items()}


def reductions(model: Any, whole: Any) -> tuple[Reduced, ...]:
    """A reduction for each dimension in which ``model`` differs from ``whole``; none for the whole model."""
    sizes, whole_sizes = flat(model), flat(whole)
    pairs = {name: (sizes.get(name), whole_sizes.get(name)) for name in whole_sizes | sizes if name not in NO_WORK}
    return tuple(Reduced(name, *map(_size, pair)) for name, pair in pairs.items() if pair[0] != pair[1])


def _size(value: Any) -> Size:
    return value if value is None or type(value) is int else str(value)


class Exit(IntEnum):
    """Exit codes of every command. Of several 2 and 3 win, then 1, then 4."""

    OK = 0
    SLOW = 1
    """Measured, and slower than the reference."""
    USER = 2
    """The user's input is wrong."""
    MACHINE = 3
    """Slurm or the machine failed."""
    INCONCLUSIVE = 4
    """Finished but inconclusive, incomplete, broken or not comparable."""
    INTERRUPTED = 130
    """A shell's code for a program that Ctrl-C ended."""
    CLOSED_PIPE = 141
    """A shell's code for a program whose reader went away, as ``head`` does."""


def worst(codes: Iterable[int]) -> Exit:
    """The exit code of several results; OK of none."""
    present = set(codes)
    order = (Exit.USER, Exit.MACHINE, Exit.SLOW, Exit.INCONCLUSIVE)
    return next((code for code in order if code in present), Exit.OK)
