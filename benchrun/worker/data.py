"""The training data, and all that is random in a run: mock tokens, an indexed data set
that megatron-core reads, seeds.

A mock sequence counts upwards (mod the vocabulary) and jumps at one position in four,
more often to a small token than to a large one: the loss falls if training works.
Sample i depends only on the seed.
"""

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchrun.errors import UserError
from benchrun.rundir.artifacts import DATA_INDEX
from benchrun.runspec.spec import TrainingSpec

JUMP = 0.25


def seed_of(seed: int, name: str) -> int:
    """The seed of one matrix, below 2**56, from the run's seed and the matrix's name."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")


def mock_tokens(spec: TrainingSpec, index: int, length: int) -> numpy.ndarray:
    """The first tokens (int64) of mock sample ``index``, at least two."""
    random = numpy.random.Generator(numpy.random.Philox(key=[spec.training.seed, index]))
    jumps = random.random(length) < JUMP
    jumps[0] = True
    # Cubed, a uniform number is below 1/8 half of the time: small tokens are common.
    targets = (random.random(length) ** 3 * spec.model.vocab_size).astype(numpy.int64)
    last_jump = numpy.maximum.accumulate(numpy.where(jumps, numpy.arange(length), 0))
    return (targets[last_jump] + numpy.arange(length) - last_jump) % spec.model.vocab_size


class Mock(Dataset):
    """Endless mock samples; labels are the tokens shifted by one."""

    def __init__(self, spec: TrainingSpec) -> None:
        self.spec = spec

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.from_numpy(mock_tokens(self.spec, index, self.spec.seq_length + 1))
        return {"tokens": tokens[:-1], "labels": tokens[1:]}


def dataset(spec: TrainingSpec) -> Dataset:
    """The samples of a run. Every rank calls this: megatron-core builds its index on
    rank 0 while the others wait."""
    if spec.data.kind == "mock":
        return Mock(spec)
    from megatron.core.datasets.blended_megatron_dataset_builder import (
        BlendedMegatronDatasetBuilder,
    )
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    vocab_size = spec.model.vocab_size
    names = {"class": "none", "vocab_size": vocab_size}
    config = GPTDatasetConfig(
        random_seed=spec.training.seed,
        sequence_length=spec.seq_length,
        blend=([str(_prefix(spec))], None),
        split="1,0,0",
        path_to_cache=DATA_INDEX,
        # The attributes of a tokenizer that megatron-core reads for tokenised data.
        tokenizer=SimpleNamespace(
            pad=None, eod=vocab_size - 1, vocab_size=vocab_size, unique_identifiers=names
        ),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    sizes = [spec.training.steps * spec.gbs, 0, 0]
    samples: Dataset = BlendedMegatronDatasetBuilder(
        GPTDataset, sizes, lambda: True, config
    ).build()[0]
    return samples


def loader(
    spec: TrainingSpec, samples: Dataset, dp_rank: int, steps: int, collate: Any = None
) -> DataLoader:
    """The micro-batches of one data-parallel rank in the first ``steps`` steps; for a
    GPU in pinned memory."""
    return DataLoader(
        samples,
        batch_sampler=order(spec, dp_rank, steps),
        # Mock tokens are cheaper to make than to pass between processes.
        num_workers=0 if spec.data.kind == "mock" else spec.data.num_workers,
        pin_memory=spec.gpu != "CPU",
        collate_fn=collate,
    )


def at_positions(positions: Tensor, samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """A micro-batch, [mbs, positions] each: the tokens and labels of one
    context-parallel rank."""
    found = {}
    for name in ("tokens", "labels"):
        found[name] = torch.stack([sample[name][positions] for sample in samples])
    return found


def order(spec: TrainingSpec, dp_rank: int, steps: int) -> list[range]:
    """The samples of each micro-batch of this rank.

    Micro-batch j of a step goes to data-parallel rank j mod dp, so a step holds the
    same micro-batches in every layout. A step beyond the planned ones reads the first
    samples again: a data set for one more step would be shuffled in another order.
    """
    planned = spec.training.steps * spec.gbs
    starts = range(dp_rank * spec.mbs, steps * spec.gbs, spec.dp * spec.mbs)
    return [range(start % planned, start % planned + spec.mbs) for start in starts]


def data_folder(spec: TrainingSpec) -> Path:
    """The folder of the run's data set."""
    return Path(os.environ.get("BENCHRUN_DATA", "../../data")) / spec.data_set


def _prefix(spec: TrainingSpec) -> Path:
    """The path of the data set without suffix. UserError if its vocabulary is not the
    model's."""
    prefix = data_folder(spec) / "tokens"
    manifest = prefix.with_suffix(".json")
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"no data set: {error}", where=manifest, hint="datagen tokens makes it"
        ) from error
    vocab_size = content.get("parameters", content).get("vocab_size")
    if vocab_size != spec.model.vocab_size:
        raise UserError(
            f"vocab_size {vocab_size}, the model has {spec.model.vocab_size}", where=manifest
        )
    return prefix
