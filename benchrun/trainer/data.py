"""Mock data: random tokens with a rule in them, the same for every layout.

A sequence counts upwards (mod the vocabulary) and jumps at one position in four, to a small token more often than to a
large one. So the loss can fall, and falls only if training works. Sample i of a run depends on nothing but the seed.
Making them costs far less than a step, so the worker does it itself: ``data.num_workers`` is not used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor

from benchrun.recipe.spec import RunSpec

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


def batches(spec: RunSpec, dp_rank: int, positions: Tensor) -> Iterator[dict[str, Tensor]]:
    """Micro-batches of one data-parallel rank, endlessly: tokens, labels and positions, [mbs, sequence] each.

    Micro-batch j of a step goes to data-parallel rank j mod dp, so a step holds the same micro-batches in every
    layout. ``positions`` are those of the sequence that this context-parallel rank holds.
    """
    start = dp_rank * spec.mbs
    while True:
        rows = [sample(spec.training.seed, start + i, spec.seq_length, spec.model.vocab_size) for i in range(spec.mbs)]
        tokens = torch.from_numpy(numpy.stack(rows))
        yield {
            "tokens": tokens[:, positions],
            "labels": tokens[:, positions + 1],
            "position_ids": positions.expand(spec.mbs, -1),
        }
        start += spec.dp * spec.mbs
