"""``datagen tokenizer``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from datagen.cli.options import Count, Place, json_option, parameter_errors, say_made, seed_option
from datagen.tokenizer import LEAST, TokenizerParameters, make_tokenizer


@click.command("tokenizer")
@click.option("--output", type=Place(), required=True, metavar="DIR")
@click.option("--vocab-size", type=Count(), required=True, help=f"With the special tokens; {LEAST} at least.")
@seed_option
@json_option
def command(output: Path, vocab_size: int, seed: int, as_json: bool) -> None:
    """Write a tokenizer of exactly this size into DIR, for AutoTokenizer.from_pretrained(DIR), and its manifest.

    It knows the words of `datagen sft --language SEED`, and takes any other text byte by byte.

    \b
    datagen tokenizer --output data/tokenizer --vocab-size 128256
    """
    with parameter_errors():
        chosen = TokenizerParameters(vocab_size=vocab_size, seed=seed)
    start = time.perf_counter()
    manifest, new = make_tokenizer(output, chosen)
    say_made(output, manifest, new, time.perf_counter() - start, as_json=as_json)
