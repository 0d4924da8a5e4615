"""Mock data: random tokens with a rule in them, the same for every layout.

A sequence counts upwards (mod the vocabulary) and jumps at one position in four, to a small token more often than to a
large one. So the loss can fall, and falls only if training works. Sample i of a run depends on nothing but the seed.
Making them costs far less than a step.
"""

from __future__ import annotations

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

JUMP = 0.25


def sample(seed: int, index: int, seq_length: int, vocab_size: int) -> numpy.ndarray:
    """``seq_length`` + 1 tokens (int64): inputs, and the same moved by one as labels."""
    random = numpy.random.Generator(numpy.random.Philox(key=[seed, index]))
    length = seq_length + 1
    jumps = random.random(length) < JUMP
    jumps[0] = True
    # Cubed, a uniform number lies below 1/8 half of the time: small tokens are the common ones.
    targets = (random.random(length) ** 3 * vocab_size).astype(numpy.int64)
    last_jump = numpy.maximum.accumulate(numpy.where(jumps, numpy.arange(length), 0))
    return (targets[last_jump] + numpy.arange(length) - last_jump) % vocab_size


class MockDataset(Dataset):
    """Sample after sample, endlessly."""

    def __init__(self, seed: int, seq_length: int, vocab_size: int) -> None:
        self._arguments = (seq_length, vocab_size)
        self._seed = seed

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.from_numpy(sample(self._seed, index, *self._arguments))
        return {"tokens": tokens[:-1], "labels": tokens[1:]}
