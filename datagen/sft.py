"""Instruction data: the parameters, and independent blocks of samples.

A sample is a prompt and its answer, two parts of one text. Lengths are in words, or in tokens where tokens are drawn
without a tokenizer; a ``chat`` sample has this length over all turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy
from pydantic import Field, model_validator

from datagen.manifest import Frozen, Lengths, Seed
from datagen.sampling import Ints, draw_lengths, length_table, stream
from datagen.text import LEXICON, speak, write
from datagen.tokenizing import Tokenizer

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
        default="dolly", description="JSON lines with dolly-15k's fields or messages, or tokens packed for NeMo."
    )
    samples: int = Field(default=10_000, gt=0, le=10**10, description="Number of samples.")
    seed: Seed = Field(default=1, description="Seed of the samples.")
    language: Seed = Field(default=1, description="The tokenizer's --seed; the same for training and validation.")
    lengths: Lengths = Field(default="lognormal", description="Distribution of the lengths of samples.")
    mean_length: int = Field(
        default=256, ge=LEAST, le=1_000_000, description="Mean words per sample; tokens with --vocab-size."
    )
    seq_length: int | None = Field(
        default=None, ge=LEAST, le=1 << 24, description="packed: inputs per sequence.  [default: 4096]"
    )
    vocab_size: int | None = Field(
        default=None, ge=3, le=1 << 24, description="packed: draw tokens; the last ends a sample.  [default: 32000]"
    )
    tokenizer: str | None = Field(default=None, description="packed: CRC-32 of tokenizer.json.")

    @model_validator(mode="after")
    def _fits(self) -> Parameters:
        if self.format != "packed" and (self.seq_length, self.vocab_size, self.tokenizer) != (None, None, None):
            raise ValueError(f"{self.format} is text: seq_length, vocab_size and tokenizer are for packed")
        if self.format != "packed":
            return self
        if self.seq_length is None or (self.vocab_size is None) == (self.tokenizer is None):
            raise ValueError("packed needs a seq_length, and either a vocab_size or a tokenizer")
        # At most half of a sequence, so that the longer lengths of the distribution fit.
        most = self.seq_length if self.lengths == "fixed" else self.seq_length // 2
        if self.vocab_size and self.mean_length > most:
            raise ValueError(f"mean_length {self.mean_length}: with seq_length {self.seq_length} at most {most}")
        return self

    def length_table(self) -> Ints:
        """The table that lengths are drawn from; drawn tokens are limited to ``seq_length``, words are not."""
        return length_table(self.lengths, self.mean_length, LEAST, self.seq_length if self.vocab_size else None)


class Tokens(NamedTuple):
    """Samples as tokens."""

    sizes: Ints
    """[samples]: number of tokens, with the end-of-document token."""
    prompts: Ints
    """[samples]: number of these tokens that belong to the prompt."""
    tokens: Ints
    """[sum of sizes]."""
    cut: Ints
    """[samples]: whether the sample was cut because it was longer than a sequence."""


def lines(parameters: Parameters, number: int) -> bytes:
    """Block ``number`` as JSON lines, in the format ``dolly`` or ``chat``."""
    records = _dolly(parameters, number) if parameters.format == "dolly" else _chat(parameters, number)
    count = parameters.samples - number * BLOCK
    return "".join(json.dumps(record) + "\n" for record in records[:count]).encode()


def tokens(parameters: Parameters, number: int, tokenizer: Tokenizer | None) -> Tokens:
    """Block ``number`` for packing: drawn tokens, or the text of ``dolly`` encoded by ``tokenizer``."""
    block = _encoded(parameters, number, tokenizer) if tokenizer else _ids(parameters, number)
    count = min(parameters.samples - number * BLOCK, BLOCK)
    sizes = block.sizes[:count]
    return Tokens(sizes, block.prompts[:count], block.tokens[: int(sizes.sum())], block.cut[:count])


def _draw(parameters: Parameters, number: int) -> tuple[Callable[[int], Ints], Ints, Ints]:
    """The stream of a block, the size of each sample, and 64 random bits for the other properties of each.

    The block is always whole, so that a smaller data set is the beginning of a larger one.
    """
    raw = stream(parameters.seed, SAMPLES, number)
    return raw, draw_lengths(parameters.length_table(), raw, BLOCK), raw(BLOCK)


def _answers(sizes: Ints, bits: Ints, least: int, most: Ints) -> Ints:
    """The length of each answer: a quarter to three quarters of the sample, uniformly distributed."""
    share = 16 + (bits >> numpy.uint64(8)).astype(numpy.int64) % 33
    return cast("Ints", numpy.clip(sizes * share // 64, least, most))


def _fields(parameters: Parameters, number: int) -> tuple[Ints, list[str]]:
    """The category of each sample, and its three texts: instruction, context (may be empty), answer."""
    raw, sizes, bits = _draw(parameters, number)
    category = bits.astype(numpy.int64) & 7
    answers = _answers(sizes, bits, 1, sizes - 2)
    context = numpy.where(category >= len(WITHOUT_CONTEXT), (sizes - answers) * 3 // 4, 0)
    words = numpy.stack([sizes - answers - context, context, answers], axis=1).ravel()
    return category, write(speak(raw, sizes, parameters.language, LEXICON), words, parameters.language)


def _dolly(parameters: Parameters, number: int) -> list[dict[str, Any]]:
    categories, texts = _fields(parameters, number)
    columns = zip(texts[0::3], texts[1::3], texts[2::3], categories.tolist(), strict=True)
    return [
        {"instruction": instruction, "context": context, "response": response, "category": CATEGORIES[category]}
        for instruction, context, response, category in columns
    ]


def _chat(parameters: Parameters, number: int) -> list[dict[str, Any]]:
    """Conversations of one to three exchanges of equal length."""
    raw, sizes, bits = _draw(parameters, number)
    turns = numpy.minimum(1 + (bits >> numpy.uint64(16)).astype(numpy.int64) % 3, sizes // LEAST)
    last = numpy.cumsum(turns) - 1
    exchange = numpy.repeat(sizes // turns, turns)
    exchange[last] += sizes % turns
    answers = _answers(exchange, numpy.repeat(bits, turns), 1, exchange - 1)
    words = numpy.stack([exchange - answers, answers], axis=1).ravel()
    texts = write(speak(raw, sizes, parameters.language, LEXICON), words, parameters.language)
    ends = (2 * last + 2).tolist()
    return [_conversation(texts[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _conversation(texts: list[str]) -> dict[str, Any]:
    """``messages`` for Hugging Face, and for NeMo with the tokenizer's template; the rest for NeMo's own template."""
    turns = list(zip(("user", "assistant") * (len(texts) // 2), texts, strict=True))
    return {
        "messages": [{"role": role, "content": text} for role, text in turns],
        "system": "",
        "conversations": [{"from": role.capitalize(), "value": text} for role, text in turns],
        "mask": "User",
    }


def _ids(parameters: Parameters, number: int) -> Tokens:
    assert parameters.vocab_size is not None
    raw, sizes, bits = _draw(parameters, number)
    eos = parameters.vocab_size - 1
    ids = numpy.full(int(sizes.sum()), eos, dtype=numpy.int32)
    inside = numpy.ones(len(ids), dtype=bool)
    inside[numpy.cumsum(sizes) - 1] = False
    ids[inside] = speak(raw, sizes - 1, parameters.language, eos)
    prompts = sizes - _answers(sizes, bits, 2, sizes - 1)
    return Tokens(sizes, prompts, ids, numpy.zeros(BLOCK, dtype=bool))


def _encoded(parameters: Parameters, number: int, tokenizer: Tokenizer) -> Tokens:
    assert parameters.seq_length is not None
    _, texts = _fields(parameters, number)
    questions = [f"{a}\n\n{b}" if b else a for a, b in zip(texts[0::3], texts[1::3], strict=True)]
    prompts, answers = tokenizer.encode(questions), tokenizer.encode([" " + text for text in texts[2::3]])
    samples, prompt_sizes, cut = [], [], []
    for prompt, answer in zip(prompts, answers, strict=True):
        cut.append(len(prompt) + len(answer) + 1 > parameters.seq_length)
        # NeMo also cuts the end of the prompt first.
        answer = [*answer[: parameters.seq_length - 2], tokenizer.eos]
        prompt = prompt[: parameters.seq_length - len(answer)]
        samples.append(numpy.array(prompt + answer, dtype=numpy.int32))
        prompt_sizes.append(len(prompt))
    sizes = numpy.array([len(sample) for sample in samples])
    return Tokens(sizes, numpy.array(prompt_sizes), numpy.concatenate(samples), numpy.array(cut))
