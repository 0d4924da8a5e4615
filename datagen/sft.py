"""Instruction data: independent blocks of samples, appended in order, then packed if
the format requires it.

A sample is a prompt and its answer, two parts of one text. Lengths are in words, or in
tokens if tokens are drawn without a tokenizer; a ``chat`` sample has this length over
all turns.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial as bind
from itertools import cycle, islice, repeat
from pathlib import Path
from typing import IO, Any, Literal, cast
from zlib import crc32

import numpy
from pydantic import Field, model_validator

from .output import (
    Frozen,
    Journal,
    Lengths,
    Manifest,
    Progress,
    Seed,
    beside,
    make_once,
    partial,
)
from .packing import Sample, pack, spool
from .sampling import Ints, draw_lengths, length_table, stream
from .text import LEXICON, speak, write
from .tokenizer import Tokenizer, load_tokenizer
from .workers import in_order

BLOCK = 256
"""Samples per stream of bits."""
SAMPLES = 103
"""Purpose of a stream of bits."""
LEAST = 4
"""The shortest sample: two words of instruction, one of context, one of answer."""
WITHOUT_CONTEXT = ("brainstorming", "classification", "creative_writing", "general_qa", "open_qa")
CATEGORIES = (*WITHOUT_CONTEXT, "closed_qa", "information_extraction", "summarization")
"""Categories of dolly-15k; the last three have a context."""


class Parameters(Frozen):
    """Parameters that define the bytes of a data set."""

    format: Literal["dolly", "chat", "packed"] = Field(
        default="dolly",
        description="JSON lines with dolly-15k's fields or messages, or tokens packed for NeMo.",
    )
    samples: int = Field(default=10_000, gt=0, le=10**10, description="Number of samples.")
    seed: Seed = Field(default=1, description="Seed of the samples.")
    language: Seed = Field(
        default=1, description="Seed of the tokenizer; the same for training and validation."
    )
    lengths: Lengths = Field(
        default="lognormal", description="Distribution of the lengths of samples."
    )
    mean_length: int = Field(
        default=256,
        ge=LEAST,
        le=1_000_000,
        description="Mean length of a sample in words, or in tokens with --vocab-size.",
    )
    seq_length: int | None = Field(
        default=None,
        ge=LEAST,
        le=1 << 24,
        description="packed: inputs per sequence.  [default: 4096]",
    )
    vocab_size: int | None = Field(
        default=None,
        ge=3,
        le=1 << 24,
        description="packed: draw tokens from so many; the last ends a sample.  [default: 32000]",
    )
    tokenizer: str | None = Field(default=None, description="packed: CRC-32 of tokenizer.json.")

    @model_validator(mode="after")
    def _fits(self) -> "Parameters":
        if self.format != "packed":
            if (self.seq_length, self.vocab_size, self.tokenizer) != (None, None, None):
                raise ValueError(
                    f"{self.format} is text: seq_length, vocab_size and tokenizer are for packed"
                )
            return self
        if self.seq_length is None or (self.vocab_size is None) == (self.tokenizer is None):
            raise ValueError("packed needs a seq_length, and either a vocab_size or a tokenizer")
        # At most half of a sequence, so that the longer lengths of the distribution
        # fit.
        most = self.seq_length if self.lengths == "fixed" else self.seq_length // 2
        if self.vocab_size and self.mean_length > most:
            raise ValueError(
                f"mean_length {self.mean_length}: with seq_length {self.seq_length} at most {most}"
            )
        return self


def make_sft(
    prefix: Path, parameters: Parameters, tokenizer: Path | None, workers: int, progress: Progress
) -> tuple[Manifest, bool]:
    """The manifest of the data set at ``prefix``, and whether it had to be made; raises
    as :func:`make_once`.

    ``tokenizer`` is the folder of the tokenizer in ``parameters``.
    """
    capacity = parameters.seq_length  # None for text
    outputs = [beside(prefix, ".jsonl")]
    rows = partial(outputs[0])
    if capacity:
        outputs = [beside(prefix, ".npy"), beside(prefix, ".metadata.json")]
        rows = partial(beside(prefix, ".samples"))
    eod = (parameters.vocab_size or 0) - 1
    fixed = {}
    if tokenizer:
        # The parameters name tokenizer.json only: a model and its chat model may share
        # it and differ in the eos_token.
        eod = fixed["eod"] = load_tokenizer(tokenizer).eos
    blocks = -(-parameters.samples // BLOCK)

    def make(journal: Journal) -> dict[str, Any]:
        with rows.open("r+b" if rows.exists() else "w+b") as file:
            tasks = range(_keep_intact(file, journal), blocks)
            for number, data in zip(
                tasks, in_order(bind(_block, parameters, tokenizer), tasks, workers), strict=True
            ):
                file.write(data)
                file.flush()
                journal.add(f"{number}:{len(data)}", crc32(data))
                progress(file.tell(), file.tell() * blocks // (number + 1))
        facts = {"samples": parameters.samples}
        if capacity:
            facts |= pack(
                rows, partial(outputs[0]), partial(outputs[1]), capacity, parameters.seed, eod
            )
            rows.unlink()
        return facts

    return make_once(prefix, "sft", parameters, outputs, make, fixed=fixed)


def _keep_intact(file: IO[bytes], journal: Journal) -> int:
    """Truncate the file after the leading blocks that agree with the journal, and
    return their number."""
    number = end = 0
    with suppress(ValueError):  # a failing disk altered this line: the rest is not used
        for name, checksum in journal.done.items():
            block, size = map(int, name.split(":"))
            if block != number or crc32(file.read(size)) != checksum:
                break
            number = number + 1
            end = end + size
    file.truncate(end)
    file.seek(end)
    return number


def _block(parameters: Parameters, tokenizer: Path | None, number: int) -> bytes:
    """Block ``number`` as JSON lines, or as a block of the spool."""
    if parameters.format == "packed":
        return spool(tokens(parameters, number, load_tokenizer(tokenizer) if tokenizer else None))
    make = _dolly if parameters.format == "dolly" else _chat
    count = parameters.samples - number * BLOCK
    return "".join(
        json.dumps(record) + "\n" for record in make(parameters, number)[:count]
    ).encode()


def tokens(parameters: Parameters, number: int, tokenizer: Tokenizer | None) -> list[Sample]:
    """Block ``number`` for packing: drawn tokens, or the text of ``dolly`` encoded by
    ``tokenizer``."""
    samples = _encoded(parameters, number, tokenizer) if tokenizer else _ids(parameters, number)
    return samples[: parameters.samples - number * BLOCK]


def _draw(parameters: Parameters, number: int) -> tuple[Callable[[int], Ints], Ints, Ints]:
    """The stream of a block, the size of each sample, and 64 random bits for the other
    properties of each.

    The block is always whole, so that a smaller data set is the beginning of a larger
    one.
    """
    raw = stream(parameters.seed, SAMPLES, number)
    most = None
    if parameters.vocab_size:  # drawn tokens are limited to a sequence, words are not
        most = parameters.seq_length
    table = length_table(parameters.lengths, parameters.mean_length, LEAST, most)
    return raw, draw_lengths(table, raw, BLOCK), raw(BLOCK)


def _answers(sizes: Ints, bits: Ints, least: int, most: Ints) -> Ints:
    """The length of each answer: a quarter to three quarters of the sample, uniformly
    distributed."""
    share = 16 + (bits >> numpy.uint64(8)).astype(numpy.int64) % 33
    return cast("Ints", numpy.clip(sizes * share // 64, least, most))


def _texts(parameters: Parameters, number: int) -> Iterator[tuple[str, str, str, str]]:
    """Instruction, context (may be empty), answer and category of each sample."""
    raw, sizes, bits = _draw(parameters, number)
    category = bits.astype(numpy.int64) & 7
    answers = _answers(sizes, bits, 1, sizes - 2)
    context = numpy.where(category >= len(WITHOUT_CONTEXT), (sizes - answers) * 3 // 4, 0)
    words = numpy.stack([sizes - answers - context, context, answers], axis=1).ravel()
    texts = write(speak(raw, sizes, parameters.language, LEXICON), words, parameters.language)
    names = map(CATEGORIES.__getitem__, category)
    return zip(texts[0::3], texts[1::3], texts[2::3], names, strict=True)


def _dolly(parameters: Parameters, number: int) -> list[dict[str, Any]]:
    names = ("instruction", "context", "response", "category")
    found = []
    for texts in _texts(parameters, number):
        found.append(dict(zip(names, texts, strict=True)))
    return found


def _chat(parameters: Parameters, number: int) -> list[dict[str, Any]]:
    """Conversations of one to three exchanges of equal length."""
    raw, sizes, bits = _draw(parameters, number)
    turns = numpy.minimum(1 + (bits >> numpy.uint64(16)).astype(numpy.int64) % 3, sizes // LEAST)
    last = numpy.cumsum(turns) - 1
    exchange = numpy.repeat(sizes // turns, turns)
    exchange[last] += sizes % turns
    answers = _answers(exchange, numpy.repeat(bits, turns), 1, exchange - 1)
    words = numpy.stack([exchange - answers, answers], axis=1).ravel()
    texts = iter(write(speak(raw, sizes, parameters.language, LEXICON), words, parameters.language))
    return [_conversation(list(islice(texts, 2 * count))) for count in turns]


def _conversation(texts: list[str]) -> dict[str, Any]:
    """``messages`` for Hugging Face, and for NeMo with the tokenizer's template; the
    rest for NeMo's own template."""
    messages = []
    conversations = []
    for role, text in zip(cycle(("user", "assistant")), texts, strict=False):
        messages.append({"role": role, "content": text})
        conversations.append({"from": role.capitalize(), "value": text})
    return {"messages": messages, "system": "", "conversations": conversations, "mask": "User"}


def _ids(parameters: Parameters, number: int) -> list[Sample]:
    raw, sizes, bits = _draw(parameters, number)
    eos = (parameters.vocab_size or 0) - 1
    prompts = sizes - _answers(sizes, bits, 2, sizes - 1)
    ids = numpy.insert(
        speak(raw, sizes - 1, parameters.language, eos), numpy.cumsum(sizes - 1), eos
    )
    samples = numpy.split(ids, numpy.cumsum(sizes)[:-1])
    return [*map(Sample, samples, prompts.tolist(), repeat(False))]


def _encoded(parameters: Parameters, number: int, tokenizer: Tokenizer) -> list[Sample]:
    limit = parameters.seq_length or 0
    prompts = []
    answers = []
    for instruction, context, response, _ in _texts(parameters, number):
        prompts.append(f"{instruction}\n\n{context}" if context else instruction)
        answers.append(" " + response)
    samples = []
    pairs = zip(tokenizer.encode(prompts), tokenizer.encode(answers), strict=True)
    for prompt, answer in pairs:
        cut = len(prompt) + len(answer) + 1 > limit
        # NeMo also cuts the end of the prompt first.
        answer = [*answer[: limit - 2], tokenizer.eos]
        prompt = prompt[: limit - len(answer)]
        samples.append(Sample(numpy.array(prompt + answer), len(prompt), cut))
    return samples
