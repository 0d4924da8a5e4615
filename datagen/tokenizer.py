"""A tokenizer of any given size, made without training: byte-level BPE for the language of ``datagen sft``.

Its merges build a word as the language does: letters to syllables, a space and a syllable to the beginning of a word,
then longer words syllable by syllable. So frequent words are one token, rarer words a few, and other text is bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from datagen.manifest import Frozen, Manifest, Seed
from datagen.output import Journal, Result, file_entry, make_once, partial
from datagen.text import CODAS, ONSETS, VOWELS, words

BOS, EOS, PAD, UNK = "<s>", "</s>", "<pad>", "<unk>"
SPECIAL = (UNK, PAD, "<|system|>", "<|user|>", "<|assistant|>", BOS, EOS)
"""The last tokens of the vocabulary; the end of text is the very last, as in ``datagen tokens``."""
LEAST = 256 + len(SPECIAL)
"""The smallest vocabulary: every byte is a token, so that any text can be encoded."""

FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
"""The files that Hugging Face's AutoTokenizer and NeMo read."""
# Hugging Face and NeMo compute the loss on the tokens between the generation marks: those of the assistant.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|assistant|>\\n' }}"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
    "{% else %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


class TokenizerParameters(Frozen):
    """Parameters that define the bytes of a tokenizer."""

    vocab_size: int = Field(ge=LEAST, le=1 << 20, description=f"Includes the special tokens; at least {LEAST}.")
    seed: Seed = Field(default=1, description="Seed of the language: --language of the data.")


def make_tokenizer(folder: Path, parameters: TokenizerParameters) -> tuple[Manifest, bool]:
    """The manifest of the tokenizer in ``folder``, and whether it had to be made; raises as :func:`make_once`."""
    outputs = [folder / name for name in FILES]

    def make(journal: Journal) -> Result:
        for path, content in zip(outputs, files(parameters), strict=True):
            partial(path).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        ids = _special_ids(parameters.vocab_size)
        facts = {"bos": ids[BOS], "eos": ids[EOS], "pad": ids[PAD], "unk": ids[UNK]}
        return facts, [file_entry(path) for path in outputs]

    return make_once(folder / "manifest", "tokenizer", parameters, outputs, make)


def files(parameters: TokenizerParameters) -> tuple[dict[str, Any], ...]:
    """The JSON content of each of ``FILES``."""
    ids = _special_ids(parameters.vocab_size)
    roles = {"bos_token": BOS, "eos_token": EOS, "pad_token": PAD, "unk_token": UNK}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = {number: {"content": token, **plain, "special": True} for token, number in ids.items()}
    config = {
        "added_tokens_decoder": {str(number): token for number, token in added.items()},
        **roles,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, **token} for number, token in added.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": _model(parameters),
    }
    return tokenizer, config, roles


def _model(parameters: TokenizerParameters) -> dict[str, Any]:
    count = parameters.vocab_size - LEAST
    merges = list(islice(_merges(parameters.seed, count), count))
    tokens = [*_byte_names(), *(first + second for first, second in merges), *SPECIAL]
    return {
        "type": "BPE",
        **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")),
        "fuse_unk": False,
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [f"{first} {second}" for first, second in merges],
    }


def _merges(language: int, count: int) -> Iterator[tuple[str, str]]:
    """At least ``count`` pairs, in the order in which they are applied; each makes a different token.

    Open syllables come before closed ones: ``lana`` is la and na, although ``lan`` is a syllable too.
    """
    yield from ((onset, vowel) for onset in ONSETS for vowel in VOWELS)
    yield from ((onset + vowel, coda) for coda in CODAS if coda for onset in ONSETS for vowel in VOWELS)
    space = _byte_names()[ord(" ")]
    for word in words(language, count):
        onset = max(i for i in range(len(word) - 1) if word[i] in ONSETS and word[i + 1] in VOWELS)  # the last one
        yield space + word[:onset], word[onset:]


def _byte_names() -> list[str]:
    """[256]: the letter of each byte in byte-level BPE: itself if printable, else a letter from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + hidden.index(byte)) for byte in range(256)]


def _special_ids(vocab_size: int) -> dict[str, int]:
    return {token: vocab_size - len(SPECIAL) + i for i, token in enumerate(SPECIAL)}
