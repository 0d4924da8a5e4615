"""Terms that every package uses, each defined once."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Literal

Precision = Literal["fp32", "bf16", "fp8"]
Task = Literal["pretrain", "sft", "lora"]
Better = Literal["lower", "higher", "equal"]
"""Direction of a metric."""

HARD = ("recipe", "task", "gpu", "num_gpus", "precision", "num_layers", "dimensions", "seq_length", "gbs", "settings")
"""Conditions that must agree before two numbers may be compared."""


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
