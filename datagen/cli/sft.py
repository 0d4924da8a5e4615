"""``datagen sft``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from datagen.cli.options import (
    LENGTHS,
    choice_option,
    count_option,
    json_option,
    make_and_print,
    output_option,
    parameter_errors,
    seed_option,
    workers_option,
)
from datagen.sft import Parameters
from datagen.sft_files import make_sft
from datagen.tokenizing import load_tokenizer, tokenizer_sum

SEQ_LENGTH, VOCAB_SIZE = 4096, 32000
FORMATS = ["dolly", "chat", "packed"]


@click.command("sft")
@output_option
@count_option("--samples", "Number of samples.", default=10_000)
@choice_option(
    "--format", FORMATS, "dolly", "JSON lines with dolly-15k's fields or messages, or tokens packed for NeMo."
)
@count_option("--seq-length", f"packed: inputs per sequence.  [default: {SEQ_LENGTH}]")
@count_option(
    "--vocab-size",
    f"packed: draw tokens without a tokenizer; the last one ends a text.  [default: {VOCAB_SIZE}]",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="packed: encode the text of dolly with this tokenizer, instead of --vocab-size.",
)
@choice_option("--lengths", LENGTHS, "lognormal", "Distribution of the lengths of samples.")
@count_option(
    "--mean-length",
    "Mean length of a sample, prompt and answer, in words; in tokens with --vocab-size.",
    default=256,
)
@seed_option("--seed", "Seed of the samples.")
@seed_option("--language", "Seed of the language, the tokenizer's --seed; the same for training and validation data.")
@workers_option
@json_option
def command(output: Path, tokenizer: Path | None, workers: int, as_json: bool, **parameters: Any) -> None:
    """Make instruction data: PREFIX.jsonl, or PREFIX.npy and PREFIX.metadata.json, and the manifest PREFIX.json.

    \b
    datagen sft --output data/training --samples 10000 --format chat
    datagen sft --output data/packed --format packed --seq-length 4096 --vocab-size 128256
    """
    if parameters["format"] == "packed":
        parameters["seq_length"] = parameters["seq_length"] or SEQ_LENGTH
        parameters["vocab_size"] = parameters["vocab_size"] or (None if tokenizer else VOCAB_SIZE)
    with parameter_errors():
        chosen = Parameters(tokenizer=tokenizer_sum(tokenizer) if tokenizer else None, **parameters)
    if tokenizer:
        load_tokenizer(tokenizer)  # report its errors before anything is written
    make_and_print(output, partial(make_sft, output, chosen, tokenizer, workers), as_json=as_json)
