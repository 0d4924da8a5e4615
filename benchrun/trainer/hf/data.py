"""What is fine-tuned on: mock tokens, or instructions in JSON lines, tokenised and packed to whole sequences.

transformers shifts the labels itself, so they stand at the position of their own token here; -100 is not trained.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset

from benchrun.errors import UserError
from benchrun.recipe.spec import RunSpec
from benchrun.trainer import mock

IGNORED = -100
"""A label that no loss is taken of."""
Sample = dict[str, torch.Tensor]


def dataset(spec: RunSpec) -> Dataset:
    """The samples of a run: ``input_ids`` and ``labels``, [seq_length] each."""
    if spec.data.kind == "mock":
        return Mock(spec)
    folder = Path(os.environ.get("BENCHRUN_DATA", "../../data")) / spec.data_set
    return Packed(folder / "sft.jsonl", folder / "tokenizer", spec)


class Mock(Dataset):
    """The worker's mock tokens, endlessly; sample i depends on the seed alone."""

    def __init__(self, spec: RunSpec) -> None:
        self._seed = spec.training.seed
        self._arguments = (spec.seq_length - 1, spec.model.vocab_size)

    def __getitem__(self, index: int) -> Sample:
        tokens = torch.from_numpy(mock.sample(self._seed, index, *self._arguments))
        return {"input_ids": tokens, "labels": tokens}


class Packed(Dataset):
    """Conversations one after the other, cut into sequences; begun again when they are used up.

    No sequence is padded, and none knows where a conversation in it ends: as trl packs, and as the published runs did.
    """

    def __init__(self, file: Path, tokenizer: Path, spec: RunSpec) -> None:
        wanted = spec.training.steps * spec.gbs * spec.seq_length
        tokens, labels = _read(file, _tokenizer(tokenizer, spec.model.vocab_size), wanted)
        self._length = spec.seq_length
        self._count = len(tokens) // self._length
        if self._count == 0:
            raise UserError(f"{len(tokens)} tokens are less than one sequence of {self._length}", where=str(file))
        self._tokens, self._labels = tokens, labels

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Sample:
        start = index % self._count * self._length
        part = slice(start, start + self._length)
        return {"input_ids": torch.from_numpy(self._tokens[part]), "labels": torch.from_numpy(self._labels[part])}


def _tokenizer(folder: Path, vocab_size: int) -> Any:
    from transformers import AutoTokenizer

    hint = "datagen tokenizer makes it"
    if not folder.is_dir():
        raise UserError("no tokenizer", where=str(folder), hint=hint)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"not a tokenizer: {error}", where=str(folder), hint=hint) from error
    if len(tokenizer) > vocab_size:
        raise UserError(f"it has {len(tokenizer)} tokens, the model's vocabulary {vocab_size}", where=str(folder))
    return tokenizer


def _read(file: Path, tokenizer: Any, wanted: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Tokens and labels (int64) of the conversations in ``file``, until there are ``wanted`` of them."""
    tokens, labels = [], []
    total = 0
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if total >= wanted:
                    break
                pieces = list(_pieces(line, f"{file}:{number}"))
                encoded = tokenizer([text for text, _ in pieces], add_special_tokens=False)["input_ids"]
                for (_, trained), ids in zip(pieces, encoded, strict=True):
                    tokens.append(numpy.array(ids, dtype=numpy.int64))
                    labels.append(tokens[-1] if trained else numpy.full_like(tokens[-1], IGNORED))
                    total += len(ids)
    except OSError as error:
        hint = "datagen sft makes it"
        raise UserError(f"no conversations: {error.strerror}", where=str(file), hint=hint) from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8: {error.reason}", where=str(file)) from None
    if not tokens:
        raise UserError("no conversation in it", where=str(file))
    return numpy.concatenate(tokens), numpy.concatenate(labels)


def _pieces(line: str, where: str) -> Iterator[tuple[str, bool]]:
    """The text of one conversation in ChatML, piece by piece, and whether the model learns to say it."""
    for role, content in _messages(line, where):
        yield f"<|im_start|>{role}\n", False
        yield f"{content}<|im_end|>\n", role == "assistant"


def _messages(line: str, where: str) -> list[tuple[str, str]]:
    """Role and content of each message, from ``messages`` or from dolly's four fields."""
    try:
        said = json.loads(line)
        if "messages" in said:
            found = [(message["role"], message["content"]) for message in said["messages"]]
        else:
            context = f"\n\n{said['context']}" if said.get("context") else ""
            found = [("user", said["instruction"] + context), ("assistant", said["response"])]
        if not found or not all(isinstance(part, str) for message in found for part in message):
            raise TypeError("a message is not text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = 'expected {"messages": [{"role": "user", "content": "..."}, ...]} or {"instruction": ..., "response": ...}'
        raise UserError(f"not a conversation: {error}", where=where, hint=hint) from None
    return found
