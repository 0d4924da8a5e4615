"""``datagen tokenizer``."""

from __future__ import annotations

from pathlib import Path

import click

from datagen.cli import options
from datagen.tokenizer import TokenizerParameters, make_tokenizer


@click.command("tokenizer")
@click.option("--output", type=options.Place(), required=True, metavar="DIR")
@options.parameter_options(TokenizerParameters)
@options.json_option
def command(output: Path, vocab_size: int, seed: int, as_json: bool) -> None:
    """Make a tokenizer of exactly this size in DIR, for AutoTokenizer.from_pretrained(DIR), and its manifest.

    It has tokens for the words of `datagen sft --language SEED`, and encodes any other text byte by byte.

    \b
    datagen tokenizer --output data/tokenizer --vocab-size 128256
    """
    chosen = options.parse(TokenizerParameters, vocab_size=vocab_size, seed=seed)
    options.make_and_print(output, lambda progress: make_tokenizer(output, chosen), as_json=as_json)
