"""The training data: mock tokens, or an indexed data set that megatron-core reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchrun.errors import UserError
from benchrun.spec.artifacts import DATA_INDEX
from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer.mock import MockDataset


def dataset(spec: TrainingSpec) -> Dataset:
    """The samples of a run. Every rank calls this: megatron-core builds its index on rank 0 while the others wait."""
    if spec.data.kind == "mock":
        return MockDataset(spec.training.seed, spec.seq_length, spec.model.vocab_size)
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    config = GPTDatasetConfig(
        random_seed=spec.training.seed,
        sequence_length=spec.seq_length,
        blend=([str(_prefix(spec))], None),
        split="1,0,0",
        path_to_cache=DATA_INDEX,
        tokenizer=_Tokens(spec.model.vocab_size),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    size = spec.training.steps * spec.gbs
    samples: Dataset = BlendedMegatronDatasetBuilder(GPTDataset, [size, 0, 0], lambda: True, config).build()[0]
    return samples


def batches(spec: TrainingSpec, samples: Dataset, dp_rank: int, positions: Tensor) -> Iterator[dict[str, Tensor]]:
    """Micro-batches of one data-parallel rank: tokens, labels and positions, [mbs, sequence] each.

    Micro-batch j of a step goes to data-parallel rank j mod dp, so a step holds the same micro-batches in every
    layout. ``positions``: those of this context-parallel rank. For a GPU, tokens and labels are in pinned memory and
    positions on the device: a copy from other memory would wait for the GPU's queue.
    """
    gpu = spec.gpu != "CPU"
    position_ids = positions.expand(spec.mbs, -1)
    position_ids = position_ids.cuda() if gpu else position_ids
    loader = DataLoader(
        samples,
        batch_sampler=order(spec, dp_rank),
        num_workers=num_workers(spec),
        pin_memory=gpu,
        collate_fn=partial(_collated, positions),
    )
    for batch in loader:
        yield {**batch, "position_ids": position_ids}


def num_workers(spec: TrainingSpec) -> int:
    """Loader processes per rank; none for mock tokens, which are cheaper to make than to pass between processes."""
    return spec.data.num_workers if spec.data.kind != "mock" else 0


def data_folder(spec: TrainingSpec) -> Path:
    """The folder of the run's data set."""
    return Path(os.environ.get("BENCHRUN_DATA", "../../data")) / spec.data_set


def _collated(positions: Tensor, samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """A micro-batch of the tokens and labels at ``positions``."""
    return {name: torch.stack([sample[name][positions] for sample in samples]) for name in ("tokens", "labels")}


def order(spec: TrainingSpec, dp_rank: int) -> list[range]:
    """The samples of each micro-batch of this rank, over the whole run.

    The profiled step after the last reads the first samples again: a data set for one more step would be shuffled in
    another order.
    """
    total = spec.training.steps * spec.gbs
    starts = range(dp_rank * spec.mbs, total + spec.training.breakdown * spec.gbs, spec.dp * spec.mbs)
    return [range(start % total, start % total + spec.mbs) for start in starts]


def _prefix(spec: TrainingSpec) -> Path:
    """The path of the data set without suffix. UserError where its vocabulary is not the model's."""
    prefix = data_folder(spec) / "tokens"
    manifest = prefix.with_suffix(".json")
    try:
        content: dict[str, Any] = json.loads(manifest.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"no data set: {error}", where=str(manifest), hint="datagen tokens makes it") from error
    vocab_size = content.get("parameters", content).get("vocab_size")
    if vocab_size != spec.model.vocab_size:
        raise UserError(f"vocab_size {vocab_size}, the model has {spec.model.vocab_size}", where=str(manifest))
    return prefix


class _Tokens:
    """The attributes of a tokenizer that megatron-core reads for tokenised data."""

    pad = None

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.eod = vocab_size - 1
        self.unique_identifiers = {"class": "none", "vocab_size": vocab_size}
