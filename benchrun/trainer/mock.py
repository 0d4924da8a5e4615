"""Random data of a run, the same in every layout: mock tokens, and the seeds of random weights.

A mock sequence counts upwards (mod the vocabulary) and jumps at one position in four, more often to a small token than
to a large one: the loss falls if training works. Sample i depends only on the seed.
"""

from __future__ import annotations

import hashlib

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

JUMP = 0.25


def seed_of(seed: int, name: str) -> int:
    """The seed of one matrix, below 2**56, from the run's seed and the matrix's name."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")


def sample(seed: int, index: int, seq_length: int, vocab_size: int) -> numpy.ndarray:
    """``seq_length`` + 1 tokens (int64): inputs, and labels shifted by one."""
    random = numpy.random.Generator(numpy.random.Philox(key=[seed, index]))
    length = seq_length + 1
    jumps = random.random(length) < JUMP
    jumps[0] = True
    # Cubed, a uniform number is below 1/8 half of the time: small tokens are common.
    targets = (random.random(length) ** 3 * vocab_size).astype(numpy.int64)
    last_jump = numpy.maximum.accumulate(numpy.where(jumps, numpy.arange(length), 0))
    return (targets[last_jump] + numpy.arange(length) - last_jump) % vocab_size


class MockDataset(Dataset):
    """Endless samples."""

    def __init__(self, seed: int, seq_length: int, vocab_size: int) -> None:
        self._arguments = (seq_length, vocab_size)
        self._seed = seed

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.from_numpy(sample(self._seed, index, *self._arguments))
        return {"tokens": tokens[:-1], "labels": tokens[1:]}
