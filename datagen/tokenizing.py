"""A tokenizer directory of Hugging Face's kind, opened with the ``tokenizers`` library alone."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

from benchrun.errors import UserError
from datagen.checksum import crc32
from datagen.sft import Tokenizer


def tokenizer_sum(folder: Path) -> str:
    """What tells a tokenizer from another: the CRC-32 of its tokenizer.json. UserError if there is none."""
    path = folder / "tokenizer.json"
    try:
        return f"{crc32(path.read_bytes()):08x}"
    except OSError as error:
        hint = "datagen tokenizer makes such a folder"
        raise UserError(f"no tokenizer: {error.strerror}", where=str(path), hint=hint) from error


@lru_cache(maxsize=1)
def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``folder``: tokenizer.json, and its end of text from tokenizer_config.json.

    UserError if the files are not there or not whole, or if the library is missing.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise UserError("packing text needs the tokenizers library", hint="pip install 'benchrun[data]'") from error
    # --workers says how many cores are used; the library would use all of them in each worker.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    config, path = folder / "tokenizer_config.json", folder / "tokenizer.json"
    try:
        # A string, or an object with the string in it.
        named = json.loads(config.read_text())["eos_token"]
        text = named if isinstance(named, str) else named["content"]
        if not isinstance(text, str):
            raise TypeError("an eos_token is a string")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("does not name an eos_token", where=str(config)) from error
    try:
        opened = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"not a tokenizer: {error}", where=str(path)) from error
    if opened.truncation or opened.padding:
        # Whoever saved it left that on: it would cut texts, and fill up samples.
        hint = "make a copy of the folder, and set truncation and padding to null there"
        raise UserError("cuts or pads what it is given", where=str(path), hint=hint)
    eos = opened.token_to_id(text)
    if eos is None:
        raise UserError(f"has no token {text}, which tokenizer_config.json calls eos_token", where=str(path))

    def encode(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in opened.encode_batch(texts, add_special_tokens=False)]

    return Tokenizer(encode, eos)
