"""Words that every room uses, each defined once."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

Precision = Literal["fp32", "bf16", "fp8"]
Task = Literal["pretrain", "sft", "lora"]


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
