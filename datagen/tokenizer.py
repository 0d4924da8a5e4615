"""Tokenizers in Hugging Face directories: made of any given size without training, and
opened for packing.

A made tokenizer is byte-level BPE for the language of ``datagen sft``. Its merges build
a word as the language does: letters to syllables, a space and a syllable to the
beginning of a word, then longer words syllable by syllable. So frequent words are one
token, rarer words a few, and other text is bytes.
"""

import json
import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from pydantic import Field

from benchrun.errors import UserError

from .output import Frozen, Journal, Manifest, Seed, make_once, partial
from .text import CODAS, ONSETS, VOWELS, words

SPECIAL = ("<unk>", "<pad>", "<|system|>", "<|user|>", "<|assistant|>", "<s>", "</s>")
"""The last tokens of the vocabulary; the end of text is the very last, as in ``datagen
tokens``."""
LEAST = 256 + len(SPECIAL)
"""The smallest vocabulary: every byte is a token, so that any text can be encoded."""
FILES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("tokenizer_files.json").read_text(encoding="utf-8")
)
"""The files that Hugging Face's AutoTokenizer and NeMo read, without the vocabulary.

In the chat template, the generation marks enclose the tokens of the assistant: those
that the loss is computed on.
"""


class TokenizerParameters(Frozen):
    """Parameters that define the bytes of a tokenizer."""

    vocab_size: int = Field(
        ge=LEAST, le=1 << 20, description=f"Size with the special tokens; at least {LEAST}."
    )
    seed: Seed = Field(
        default=1, description="Seed of the language, which is --language of the data."
    )


def make_tokenizer(folder: Path, parameters: TokenizerParameters) -> tuple[Manifest, bool]:
    """The manifest of the tokenizer in ``folder``, and whether it had to be made;
    raises as :func:`make_once`."""

    def make(journal: Journal) -> dict[str, Any]:
        for name, content in files(parameters).items():
            text = json.dumps(content, ensure_ascii=False, indent=1)
            partial(folder / name).write_text(f"{text}\n", encoding="utf-8")
        ids = _special_ids(parameters.vocab_size)
        roles = FILES["special_tokens_map.json"]
        found = {}
        for role, token in roles.items():
            found[role.removesuffix("_token")] = ids[token]
        return found

    return make_once(
        folder / "manifest", "tokenizer", parameters, [folder / name for name in FILES], make
    )


def files(parameters: TokenizerParameters) -> dict[str, dict[str, Any]]:
    """Name and JSON content of each file."""
    count = parameters.vocab_size - LEAST
    merges = list(islice(_merges(parameters.seed, count), count))
    tokens = [*_byte_names(), *map("".join, merges), *SPECIAL]
    content = deepcopy(FILES)
    tokenizer = content["tokenizer.json"]
    tokenizer["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    tokenizer["model"]["merges"] = [*map(" ".join, merges)]
    tokenizer["added_tokens"] = []
    decoder = content["tokenizer_config.json"]["added_tokens_decoder"] = {}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for token, number in _special_ids(parameters.vocab_size).items():
        added = {"content": token, **plain, "special": True}
        decoder[str(number)] = added
        tokenizer["added_tokens"].append({"id": number, **added})
    return content


def _merges(language: int, count: int) -> Iterator[tuple[str, str]]:
    """Yield at least ``count`` pairs, in the order in which they are applied; each
    makes a different token.

    Open syllables come before closed ones: ``lana`` is la and na, although ``lan`` is a
    syllable too.
    """
    yield from product(ONSETS, VOWELS)
    for coda in filter(None, CODAS):
        for onset, vowel in product(ONSETS, VOWELS):
            yield onset + vowel, coda
    space = _byte_names()[ord(" ")]
    for word in words(language, count):
        last_vowel = max(map(word.rfind, VOWELS))
        syllable = last_vowel - 1  # its only onset is one letter
        yield space + word[:syllable], word[syllable:]


def _byte_names() -> list[str]:
    """[256]: the letter of each byte in byte-level BPE: itself if printable, else a
    letter from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    names = []
    hidden = 0
    for byte in range(256):
        if byte in printable:
            names.append(chr(byte))
        else:
            names.append(chr(256 + hidden))
            hidden += 1
    return names


def _special_ids(vocab_size: int) -> dict[str, int]:
    found = {}
    for number, token in enumerate(SPECIAL, vocab_size - len(SPECIAL)):
        found[token] = number
    return found


class Tokenizer(NamedTuple):
    """The part of a tokenizer that packing needs."""

    encode: Callable[[list[str]], list[list[int]]]
    """Texts to token ids."""
    eos: int
    """Id of the end-of-text token."""
    checksum: str
    """CRC-32 of tokenizer.json, which identifies a tokenizer."""


@lru_cache(maxsize=1)
def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``folder``, from tokenizer.json and the eos_token in
    tokenizer_config.json.

    UserError if a file is missing or damaged, or if the ``tokenizers`` library is
    missing.
    """
    config = folder / "tokenizer_config.json"
    path = folder / "tokenizer.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "make one with datagen tokenizer"
        raise UserError(f"no tokenizer: {error.strerror}", where=path, hint=hint) from error
    try:
        import tokenizers
    except ImportError as error:
        raise UserError(
            "packing text needs the tokenizers library", hint="pip install '.[data]'"
        ) from error
    # --workers sets the number of cores; the library would use all cores in each
    # worker.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        opened = tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"not a tokenizer: {error}", where=path) from error
    if opened.truncation or opened.padding:
        hint = "copy the folder, and set truncation and padding to null in the copy"
        raise UserError("truncates or pads texts", where=path, hint=hint)
    try:
        # A string, or an object that contains the string.
        token = json.loads(config.read_text(encoding="utf-8"))["eos_token"]
        eos = opened.token_to_id(token if isinstance(token, str) else token["content"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("has no eos_token", where=config) from error
    if eos is None:
        raise UserError(f"has no token {token}, the eos_token of tokenizer_config.json", where=path)

    def encode(texts: list[str]) -> list[list[int]]:
        found = []
        for encoding in opened.encode_batch(texts, add_special_tokens=False):
            found.append(encoding.ids)
        return found

    return Tokenizer(encode, eos, f"{crc32(data):08x}")
