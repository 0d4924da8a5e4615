"""``datagen tokens``, ``datagen sft`` and ``datagen tokenizer``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from benchrun.errors import UserError
from datagen import sft as instructions
from datagen import tokens as megatron
from datagen.cli import options
from datagen.maker import make_tokens
from datagen.sft_files import make_sft
from datagen.tokenizer import TokenizerParameters, load_tokenizer, make_tokenizer, tokenizer_sum


@click.command("tokens")
@options.output_option
@click.option("--tokens", type=options.Count(), help=megatron.Parameters.model_fields["tokens"].description)
@click.option("--samples", type=options.Count(), help="Number of training samples, with --seq-length.")
@click.option("--seq-length", type=options.Count(), help="Tokens per training sample.")
@options.parameter_options(megatron.Parameters, "tokens")
@options.workers_option
@options.json_option
def tokens(output: Path, workers: int, as_json: bool, **parameters: Any) -> None:
    """Make a data set for Megatron: PREFIX.bin, PREFIX.idx and the manifest PREFIX.json.

    \b
    datagen tokens --output data/llama --tokens 1e9 --vocab-size 128256
    """
    samples, seq_length = parameters.pop("samples"), parameters.pop("seq_length")
    if parameters["tokens"] is None and samples and seq_length:
        parameters["tokens"] = samples * seq_length + 1  # the last sample needs one more token as its label
    elif parameters["tokens"] is None or (samples, seq_length) != (None, None):
        raise UserError("the size is missing or ambiguous", hint="give --tokens, or --samples and --seq-length")
    chosen = options.parse(megatron.Parameters, **parameters)
    options.make_and_print(output, partial(make_tokens, output, chosen, workers), as_json=as_json)


@click.command("sft")
@options.output_option
@options.parameter_options(instructions.Parameters, "tokenizer")
@click.option(
    "--tokenizer",
    type=options.PATH,
    metavar="DIR",
    help="packed: encode the text of dolly with this tokenizer, instead of --vocab-size.",
)
@options.workers_option
@options.json_option
def sft(output: Path, tokenizer: Path | None, workers: int, as_json: bool, **parameters: Any) -> None:
    """Make instruction data: PREFIX.jsonl, or PREFIX.npy and PREFIX.metadata.json, and the manifest PREFIX.json.

    \b
    datagen sft --output data/training --samples 10000 --format chat
    datagen sft --output data/packed --format packed --seq-length 4096 --vocab-size 128256
    """
    if parameters["format"] == "packed":
        defaults = {"seq_length": 4096, "vocab_size": None if tokenizer else 32000}
        parameters |= {name: default for name, default in defaults.items() if parameters[name] is None}
    checksum = tokenizer_sum(tokenizer) if tokenizer else None
    chosen = options.parse(instructions.Parameters, tokenizer=checksum, **parameters)
    if tokenizer:
        load_tokenizer(tokenizer)  # report its errors before anything is written
    options.make_and_print(output, partial(make_sft, output, chosen, tokenizer, workers), as_json=as_json)


@click.command("tokenizer")
@click.option("--output", type=options.PATH, required=True, metavar="DIR")
@options.parameter_options(TokenizerParameters)
@options.json_option
def tokenizer(output: Path, as_json: bool, **parameters: Any) -> None:
    """Make a tokenizer of exactly this size in DIR, for AutoTokenizer.from_pretrained(DIR), and its manifest.

    It has tokens for the words of `datagen sft --language SEED`, and encodes any other text byte by byte.

    \b
    datagen tokenizer --output data/tokenizer --vocab-size 128256
    """
    chosen = options.parse(TokenizerParameters, **parameters)
    options.make_and_print(output, lambda progress: make_tokenizer(output, chosen), as_json=as_json)
