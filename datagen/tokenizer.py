"""A tokenizer of exactly the size that was asked for, made without training: byte-level BPE for datagen's language.

Its merges are the way a word is built: letters to syllables, a space and a syllable to the beginning of a word, that
and a syllable to a longer word. So frequent words are one token, rarer ones a few, and any other text is its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from datagen import __version__
from datagen.manifest import Manifest
from datagen.output import Journal, file_of, finish, locked, machine_errors, made, partial
from datagen.text import CODAS, ONSETS, VOWELS, words

BOS, EOS, PAD, UNK = "<s>", "</s>", "<pad>", "<unk>"
SPECIAL = (UNK, PAD, "<|system|>", "<|user|>", "<|assistant|>", BOS, EOS)
"""The last tokens of the vocabulary: the end of text is the very last, as in the token data that datagen makes."""
LEAST = 256 + len(SPECIAL)
"""Every byte is a token, so that any text can be said."""

# The generation marks tell Hugging Face and NeMo which tokens are the assistant's: those the loss is computed on.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|assistant|>\\n' }}"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
    "{% else %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


class TokenizerParameters(BaseModel):
    """What defines the bytes of a tokenizer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocab_size: int = Field(ge=LEAST, le=1 << 20)
    """With the special tokens."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """Of the language."""


def make_tokenizer(folder: Path, parameters: TokenizerParameters) -> tuple[Manifest, bool]:
    """The tokenizer in ``folder``, and whether it had to be made. UserError if something else is there."""
    prefix = folder / "manifest"
    said = parameters.model_dump(mode="json")
    with machine_errors(prefix), locked(prefix):
        if there := made(prefix, "tokenizer", said):
            return there, False
        contents = files(parameters)
        paths = [folder / name for name in contents]
        journal = Journal(prefix, "tokenizer", said, paths)
        for path, content in zip(paths, contents.values(), strict=True):
            partial(path).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        ids = _special_ids(parameters.vocab_size)
        facts = {"bos": ids[BOS], "eos": ids[EOS], "pad": ids[PAD], "unk": ids[UNK]}
        entries = tuple(file_of(path) for path in paths)
        manifest = Manifest(kind="tokenizer", version=__version__, parameters=said, facts=facts, files=entries)
        finish(prefix, manifest)
        journal.end()
        return manifest, True


def files(parameters: TokenizerParameters) -> dict[str, Any]:
    """Name and JSON content of each file that Hugging Face's AutoTokenizer and NeMo read."""
    named = {"bos_token": BOS, "eos_token": EOS, "pad_token": PAD, "unk_token": UNK}
    added = [_added(token, number) for token, number in _special_ids(parameters.vocab_size).items()]
    config = {
        "added_tokens_decoder": {str(token.pop("id")): token for token in map(dict, added)},
        **named,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": _model(parameters),
    }
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": config, "special_tokens_map.json": named}


def _model(parameters: TokenizerParameters) -> dict[str, Any]:
    several = parameters.vocab_size - LEAST
    merges = list(islice(_merges(parameters.seed, several), several))
    tokens = [*_byte_names(), *(first + second for first, second in merges), *SPECIAL]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [f"{first} {second}" for first, second in merges],
    }


def _merges(language: int, count: int) -> Iterator[tuple[str, str]]:
    """At least ``count`` pairs, the one that is applied first first. Each makes a token that no other makes.

    Open syllables come before closed ones: ``lana`` is la and na, though ``lan`` is a syllable too.
    """
    yield from ((onset, vowel) for onset in ONSETS for vowel in VOWELS)
    yield from ((onset + vowel, coda) for coda in CODAS if coda for onset in ONSETS for vowel in VOWELS)
    space = _byte_names()[ord(" ")]
    for word in words(language, count):
        last = _last_syllable(word)
        yield space + word.removesuffix(last), last


def _last_syllable(word: str) -> str:
    """From its last onset on: a consonant before a vowel."""
    start = max(i for i in range(len(word) - 1) if word[i] in ONSETS and word[i + 1] in VOWELS)
    return word[start:]


def _byte_names() -> list[str]:
    """[256]: how byte-level BPE writes each byte: a printable one as itself, the others as letters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + hidden.index(byte)) for byte in range(256)]


def _special_ids(vocab_size: int) -> dict[str, int]:
    return {token: vocab_size - len(SPECIAL) + i for i, token in enumerate(SPECIAL)}


def _added(token: str, number: int) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **plain, "special": True}
