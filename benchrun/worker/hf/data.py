"""The data of fine-tuning: mock tokens, or conversations in JSON lines, tokenised and
packed into sequences.

Labels are not shifted, because transformers does that.
"""

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset

from benchrun.errors import UserError
from benchrun.runspec.spec import TrainingSpec
from benchrun.worker import data

IGNORED = -100
"""The label of a token without loss."""
AT_ONCE = 256
"""Conversations per call of the tokenizer."""
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>\n' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
)
"""Used if the tokenizer has no template, or one that does not mark the assistant's
tokens."""
Messages = list[dict[str, str]]


def dataset(spec: TrainingSpec) -> Dataset:
    """The samples of a run: ``input_ids`` and ``labels``, [seq_length] each."""
    if spec.data.kind == "mock":
        return Mock(spec)
    folder = data.data_folder(spec)
    return Packed(folder / "sft.jsonl", folder / "tokenizer", spec)


class Mock(data.Mock):
    """Endless mock samples."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = data.mock_tokens(self.spec, index, self.spec.seq_length)
        return _sample(tokens, tokens)


class Packed(Dataset):
    """Concatenated conversations, cut into sequences; they repeat when all are used.

    Like trl and the published runs: no padding, no mask between conversations, and a
    loss only on the assistant's tokens; sequences without any are left out. Every rank
    tokenises as much as the run reads.
    """

    def __init__(self, file: Path, tokenizer: Path, spec: TrainingSpec) -> None:
        length = spec.seq_length
        size = spec.training.steps * spec.gbs * length
        tokens, labels = _packed(file, _tokenizer(tokenizer, spec.model.vocab_size), size)
        rows = len(tokens) // length
        self._rows = numpy.stack([tokens, labels])[:, : rows * length].reshape(2, rows, length)
        self._trained = numpy.flatnonzero((self._rows[1, :, 1:] != IGNORED).any(axis=1))
        if not len(self._trained):
            message = f"{len(tokens)} tokens hold no sequence of {length} with an answer in it"
            raise UserError(message, where=file, hint="make more conversations, or shorter ones")

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return _sample(*self._rows[:, self._trained[index % len(self._trained)]])


def _sample(tokens: numpy.ndarray, labels: numpy.ndarray) -> dict[str, torch.Tensor]:
    """One sample. The first label is ignored, because versions of transformers disagree
    whether to count it."""
    labels = labels.copy()
    labels[0] = IGNORED
    return {"input_ids": torch.from_numpy(tokens), "labels": torch.from_numpy(labels)}


def _tokenizer(folder: Path, vocab_size: int) -> Any:
    from transformers import AutoTokenizer

    hint = "datagen tokenizer makes it"
    if not folder.is_dir():
        raise UserError("no tokenizer", where=folder, hint=hint)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"not a tokenizer: {error}", where=folder, hint=hint) from error
    if len(tokenizer) > vocab_size:
        raise UserError(
            f"it has {len(tokenizer)} tokens, the model's vocabulary {vocab_size}",
            where=folder,
        )
    return tokenizer


def _packed(file: Path, tokenizer: Any, wanted: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Tokens and labels (int64) of the conversations in ``file``, at least ``wanted``
    if it has as many."""
    own = tokenizer.chat_template
    template = own if own and "generation" in own else CHATML
    tokens: list[int] = []
    trained: list[int] = []
    conversations = _conversations(file)
    while len(tokens) < wanted and (batch := list(islice(conversations, AT_ONCE))):
        encoded = tokenizer.apply_chat_template(
            batch, chat_template=template, return_dict=True, return_assistant_tokens_mask=True
        )
        tokens.extend(chain.from_iterable(encoded["input_ids"]))
        trained.extend(chain.from_iterable(encoded["assistant_masks"]))
    array = numpy.array(tokens, dtype=numpy.int64)
    return array, numpy.where(numpy.array(trained, dtype=bool), array, IGNORED)


def _conversations(file: Path) -> Iterator[Messages]:
    """The conversations in a file, one per line. UserError with file:line."""
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _messages(line, f"{file}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"no conversations: {error}", where=file, hint="datagen sft makes it"
        ) from None


def _messages(line: str, where: str) -> Messages:
    """One conversation from ``messages``, or from dolly's instruction, context and
    response."""
    try:
        record = json.loads(line)
        if "messages" in record:
            turns = []
            for message in record["messages"]:
                turns.append((message["role"], message["content"]))
        else:
            context = ""
            if record.get("context"):
                context = f"\n\n{record['context']}"
            turns = [("user", record["instruction"] + context), ("assistant", record["response"])]
        if not turns or not all(isinstance(part, str) for turn in turns for part in turn):
            raise TypeError("a message is no text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = 'expected {"messages": [{"role": ..., "content": ...}, ...]} or {"instruction": ..., "response": ...}'
        raise UserError(f"not a conversation: {error}", where=where, hint=hint) from None
    return [{"role": role, "content": content} for role, content in turns]
