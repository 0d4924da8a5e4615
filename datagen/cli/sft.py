"""``datagen sft``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from datagen.cli.options import (
    Count,
    json_option,
    output_option,
    parameter_errors,
    progress_bar,
    say_made,
    seed_option,
    workers_option,
)
from datagen.sft import Parameters
from datagen.sft_files import make_sft
from datagen.tokenizing import load_tokenizer, tokenizer_sum

SEQ_LENGTH, VOCAB_SIZE = 4096, 32000


@click.command("sft")
@output_option
@click.option("--samples", type=Count(), default=10_000, show_default=True)
@click.option(
    "--format",
    type=click.Choice(["dolly", "chat", "packed"]),
    default="dolly",
    show_default=True,
    help="JSON lines with the fields of dolly-15k, or with messages, or tokens packed for NeMo.",
)
@click.option("--seq-length", type=Count(), help=f"packed: inputs to a sequence.  [default: {SEQ_LENGTH}]")
@click.option(
    "--vocab-size",
    type=Count(),
    help=f"packed: draw tokens without a tokenizer; the end of text is the last one.  [default: {VOCAB_SIZE}]",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="packed: the text of dolly through this tokenizer, instead of --vocab-size.",
)
@click.option(
    "--lengths",
    type=click.Choice(["fixed", "lognormal", "zipf"]),
    default="lognormal",
    show_default=True,
    help="How the lengths of samples are distributed.",
)
@click.option(
    "--mean-length",
    type=Count(),
    default=256,
    show_default=True,
    help="Of a sample, prompt and answer: words, or tokens with --vocab-size.",
)
@seed_option
@click.option(
    "--language",
    type=click.IntRange(0, 2**63 - 1),
    default=1,
    show_default=True,
    help="The --seed of the tokenizer; the same for training and validation data.",
)
@workers_option
@json_option
def command(output: Path, tokenizer: Path | None, workers: int, as_json: bool, **parameters: Any) -> None:
    """Write PREFIX.jsonl, or PREFIX.npy and PREFIX.metadata.json, and the manifest PREFIX.json: instruction data.

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
        load_tokenizer(tokenizer)  # what is wrong with it is said before anything is written
    start = time.perf_counter()
    with progress_bar(output.name) as progress:
        manifest, new = make_sft(output, chosen, tokenizer, workers, progress)
    say_made(output, manifest, new, time.perf_counter() - start, as_json=as_json)
