"""``datagen sft``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from datagen.cli import options
from datagen.sft import Parameters
from datagen.sft_files import make_sft
from datagen.tokenizing import load_tokenizer, tokenizer_sum


@click.command("sft")
@options.output_option
@options.parameter_options(Parameters, "tokenizer")
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="packed: encode the text of dolly with this tokenizer, instead of --vocab-size.",
)
@options.workers_option
@options.json_option
def command(output: Path, tokenizer: Path | None, workers: int, as_json: bool, **parameters: Any) -> None:
    """Make instruction data: PREFIX.jsonl, or PREFIX.npy and PREFIX.metadata.json, and the manifest PREFIX.json.

    \b
    datagen sft --output data/training --samples 10000 --format chat
    datagen sft --output data/packed --format packed --seq-length 4096 --vocab-size 128256
    """
    if parameters["format"] == "packed":
        parameters["seq_length"] = parameters["seq_length"] or 4096
        parameters["vocab_size"] = parameters["vocab_size"] or (None if tokenizer else 32000)
    chosen = options.parse(Parameters, tokenizer=tokenizer_sum(tokenizer) if tokenizer else None, **parameters)
    if tokenizer:
        load_tokenizer(tokenizer)  # report its errors before anything is written
    options.make_and_print(output, partial(make_sft, output, chosen, tokenizer, workers), as_json=as_json)
