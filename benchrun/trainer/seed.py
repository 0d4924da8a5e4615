"""Where random weights come from: each matrix has a seed of its own, made of the run's seed and its name."""

from __future__ import annotations

import hashlib


def seed_of(seed: int, name: str) -> int:
    """The seed of one matrix, below 2**56."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")
