"""``datagen tokenizer``."""

from __future__ import annotations

from pathlib import Path

import click

from datagen.cli.options import Place, count_option, json_option, make_and_print, parameter_errors, seed_option
from datagen.tokenizer import LEAST, TokenizerParameters, make_tokenizer


@click.command("tokenizer")
@click.option("--output", type=Place(), required=True, metavar="DIR")
@count_option("--vocab-size", f"Includes the special tokens; at least {LEAST}.", required=True)
@seed_option("--seed", "Seed of the language; equal to --language of the data.")
@json_option
def command(output: Path, vocab_size: int, seed: int, as_json: bool) -> None:
    """Make a tokenizer of exactly this size in DIR, for AutoTokenizer.from_pretrained(DIR), and its manifest.

    It has tokens for the words of `datagen sft --language SEED`, and encodes any other text byte by byte.

    \b
    datagen tokenizer --output data/tokenizer --vocab-size 128256
    """
    with parameter_errors():
        chosen = TokenizerParameters(vocab_size=vocab_size, seed=seed)
    make_and_print(output, lambda progress: make_tokenizer(output, chosen), as_json=as_json)
