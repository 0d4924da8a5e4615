"""Instruction data: what a sample is, and blocks of samples that know nothing of each other.

A sample is one text cut in two: the prompt and its answer. Lengths are in words, or in tokens where tokens are made
without a tokenizer; in ``chat`` they are those of all its turns together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from datagen.sampling import Ints, draw_lengths, length_table, stream
from datagen.text import LEXICON, speak, write

BLOCK = 256
"""Samples of a stream of bits."""
SAMPLES = 103
"""What a stream of bits is for."""
LEAST = 4
"""The shortest sample: two words asked, one given as context, one answered."""
CATEGORIES = (
    "brainstorming",
    "classification",
    "creative_writing",
    "general_qa",
    "open_qa",
    "closed_qa",
    "information_extraction",
    "summarization",
)
"""Of dolly-15k; the last three give a text as context."""
WITHOUT_CONTEXT = 5


class Parameters(BaseModel):
    """What defines the bytes of a data set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["dolly", "chat", "packed"]
    samples: int = Field(gt=0, le=10**10)
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    language: int = Field(default=1, ge=0, lt=1 << 63)
    lengths: Literal["fixed", "lognormal", "zipf"] = "lognormal"
    mean_length: int = Field(default=256, ge=LEAST, le=1_000_000)
    seq_length: int | None = Field(default=None, ge=LEAST, le=1 << 24)
    """Inputs to a packed sequence; only with ``packed``, like the next two."""
    vocab_size: int | None = Field(default=None, ge=3, le=1 << 24)
    """With the end-of-document token, which is the last one. Null with a tokenizer."""
    tokenizer: str | None = None
    """CRC-32 of its tokenizer.json."""

    @model_validator(mode="after")
    def _fits(self) -> Parameters:
        if self.format != "packed" and (self.seq_length, self.vocab_size, self.tokenizer) != (None, None, None):
            raise ValueError(f"{self.format} is text: seq_length, vocab_size and tokenizer are for packed")
        if self.format != "packed":
            return self
        if self.seq_length is None or (self.vocab_size is None) == (self.tokenizer is None):
            raise ValueError("packed needs a seq_length, and either a vocab_size or a tokenizer")
        # Towards the end of the sequence there is no room for the longer half of a distribution.
        most = self.seq_length if self.lengths == "fixed" else self.seq_length // 2
        if self.vocab_size and self.mean_length > most:
            raise ValueError(f"mean_length {self.mean_length}: with seq_length {self.seq_length} at most {most}")
        return self

    def length_table(self) -> Ints:
        """What lengths are drawn from. Tokens without a tokenizer never exceed the sequence; words are not bounded."""
        return length_table(self.lengths, self.mean_length, LEAST, self.seq_length if self.vocab_size else None)


class Tokenizer(NamedTuple):
    """Text to token ids."""

    encode: Callable[[list[str]], list[list[int]]]
    eos: int


class Tokens(NamedTuple):
    """Samples as tokens."""

    sizes: NDArray[numpy.int32]
    """[samples]: tokens of each, with the end-of-document token."""
    prompts: NDArray[numpy.int32]
    """[samples]: of those, the tokens of the prompt."""
    tokens: NDArray[numpy.int32]
    """[sum of sizes]."""
    cut: NDArray[numpy.bool_]
    """[samples]: whether it was longer than a sequence."""


class _Drawn(NamedTuple):
    raw: Callable[[int], Ints]
    sizes: Ints
    bits: Ints
    """[samples] uint64: what else is decided of each."""


def lines(parameters: Parameters, number: int) -> bytes:
    """Block ``number`` as JSON lines, in the format ``dolly`` or ``chat``."""
    records = _dolly(parameters, number) if parameters.format == "dolly" else _chat(parameters, number)
    left = parameters.samples - number * BLOCK
    return "".join(json.dumps(record) + "\n" for record in records[:left]).encode()


def tokens(parameters: Parameters, number: int, tokenizer: Tokenizer | None) -> Tokens:
    """Block ``number`` for packing: ids drawn from the vocabulary, or the text of ``dolly`` through a tokenizer."""
    made = _encoded(parameters, number, tokenizer) if tokenizer else _ids(parameters, number)
    left = min(parameters.samples - number * BLOCK, BLOCK)
    return Tokens(made.sizes[:left], made.prompts[:left], made.tokens[: int(made.sizes[:left].sum())], made.cut[:left])


def _draw(parameters: Parameters, number: int) -> _Drawn:
    """Always whole blocks: the first samples of a larger data set are those of a smaller one."""
    raw = stream(parameters.seed, SAMPLES, number)
    sizes = draw_lengths(parameters.length_table(), raw, BLOCK)
    return _Drawn(raw, sizes, raw(BLOCK))


def _answers(sizes: Ints, bits: Ints, least: int, most: Ints) -> Ints:
    """How much of each sample is the answer: a quarter to three quarters, evenly spread."""
    share = 16 + (bits >> numpy.uint64(8)).astype(numpy.int64) % 33
    return cast("Ints", numpy.clip(sizes * share // 64, least, most))


def _fields(parameters: Parameters, number: int) -> tuple[Ints, list[str]]:
    """The categories of a block, and three texts a sample: instruction, context (or none), answer."""
    raw, sizes, bits = _draw(parameters, number)
    category = bits.astype(numpy.int64) & 7
    answers = _answers(sizes, bits, 1, sizes - 2)
    context = numpy.where(category >= WITHOUT_CONTEXT, (sizes - answers) * 3 // 4, 0)
    words = numpy.stack([sizes - answers - context, context, answers], axis=1).ravel()
    return category, write(speak(raw, sizes, parameters.language, LEXICON), words, parameters.language)


def _dolly(parameters: Parameters, number: int) -> list[dict[str, Any]]:
    categories, texts = _fields(parameters, number)
    names = [CATEGORIES[category] for category in categories.tolist()]
    fields = zip(texts[0::3], texts[1::3], texts[2::3], names, strict=True)
    return [dict(zip(("instruction", "context", "response", "category"), values, strict=True)) for values in fields]


def _chat(parameters: Parameters, number: int) -> list[dict[str, Any]]:
    """One to three exchanges a sample, of equal length."""
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
    """``messages`` for Hugging Face, and for NeMo where it uses the tokenizer's template; the rest for NeMo's own."""
    roles = ("user", "assistant") * (len(texts) // 2)
    said = list(zip(roles, texts, strict=True))
    return {
        "messages": [{"role": role, "content": text} for role, text in said],
        "system": "",
        "conversations": [{"from": role.capitalize(), "value": text} for role, text in said],
        "mask": "User",
    }


def _ids(parameters: Parameters, number: int) -> Tokens:
    assert parameters.vocab_size is not None
    raw, sizes, bits = _draw(parameters, number)
    eos = parameters.vocab_size - 1
    made = numpy.full(int(sizes.sum()), eos, dtype=numpy.int32)
    inside = numpy.ones(len(made), dtype=bool)
    inside[numpy.cumsum(sizes) - 1] = False
    made[inside] = speak(raw, sizes - 1, parameters.language, eos)
    prompts = sizes - _answers(sizes, bits, 2, sizes - 1)
    return Tokens(sizes.astype(numpy.int32), prompts.astype(numpy.int32), made, numpy.zeros(BLOCK, dtype=bool))


def _encoded(parameters: Parameters, number: int, tokenizer: Tokenizer) -> Tokens:
    assert parameters.seq_length is not None
    _, texts = _fields(parameters, number)
    asked = [f"{a}\n\n{b}" if b else a for a, b in zip(texts[0::3], texts[1::3], strict=True)]
    prompts, answers = tokenizer.encode(asked), tokenizer.encode([" " + text for text in texts[2::3]])
    samples, firsts, cut = [], [], []
    for prompt, answer in zip(prompts, answers, strict=True):
        cut.append(len(prompt) + len(answer) + 1 > parameters.seq_length)
        # As NeMo does: the end of the prompt goes first.
        answer = [*answer[: parameters.seq_length - 2], tokenizer.eos]
        prompt = prompt[: parameters.seq_length - len(answer)]
        samples.append(numpy.array(prompt + answer, dtype=numpy.int32))
        firsts.append(len(prompt))
    sizes = numpy.array([len(sample) for sample in samples], dtype=numpy.int32)
    return Tokens(sizes, numpy.array(firsts, dtype=numpy.int32), numpy.concatenate(samples), numpy.array(cut))
