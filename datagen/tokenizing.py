"""Open a Hugging Face tokenizer directory, with the ``tokenizers`` library alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from benchrun.errors import UserError
from datagen.checksum import crc32


class Tokenizer(NamedTuple):
    """The part of a tokenizer that packing needs."""

    encode: Callable[[list[str]], list[list[int]]]
    """Texts to token ids."""
    eos: int
    """Id of the end-of-text token."""


def tokenizer_sum(folder: Path) -> str:
    """CRC-32 of tokenizer.json, which identifies a tokenizer. UserError if the file is missing."""
    path = folder / "tokenizer.json"
    try:
        return f"{crc32(path.read_bytes()):08x}"
    except OSError as error:
        hint = "make one with datagen tokenizer"
        raise UserError(f"no tokenizer: {error.strerror}", where=str(path), hint=hint) from error


@lru_cache(maxsize=1)
def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``folder``, from tokenizer.json and the eos_token in tokenizer_config.json.

    UserError if a file is missing or damaged, or if the library is missing.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise UserError("packing text needs the tokenizers library", hint="pip install 'benchrun[data]'") from error
    # --workers sets the number of cores; the library would use all cores in each worker.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    config, path = folder / "tokenizer_config.json", folder / "tokenizer.json"
    try:
        # A string, or an object that contains the string.
        token = json.loads(config.read_text())["eos_token"]
        text = token if isinstance(token, str) else token["content"]
        if not isinstance(text, str):
            raise TypeError("an eos_token is a string")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("has no eos_token", where=str(config)) from error
    try:
        opened = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"not a tokenizer: {error}", where=str(path)) from error
    if opened.truncation or opened.padding:
        hint = "copy the folder, and set truncation and padding to null in the copy"
        raise UserError("truncates or pads texts", where=str(path), hint=hint)
    eos = opened.token_to_id(text)
    if eos is None:
        raise UserError(f"has no token {text}, the eos_token of tokenizer_config.json", where=str(path))

    def encode(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in opened.encode_batch(texts, add_special_tokens=False)]

    return Tokenizer(encode, eos)
