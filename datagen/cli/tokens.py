"""``datagen tokens``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from benchrun.errors import UserError
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
from datagen.maker import make_tokens
from datagen.tokens import Parameters


@click.command("tokens")
@output_option
@count_option("--tokens", "Number of tokens, e.g. 1e9.")
@count_option("--samples", "Number of training samples, with --seq-length instead of --tokens.")
@count_option("--seq-length", "Tokens per sample.")
@count_option("--vocab-size", "Includes the end-of-document token, which is the last one.", required=True)
@seed_option("--seed", "Seed of the tokens and lengths.")
@choice_option("--documents", LENGTHS, "lognormal", "Distribution of the lengths of documents.")
@count_option("--mean-length", "Mean length of a document, in tokens.", default=1024)
@choice_option("--distribution", ["uniform", "zipf"], "zipf", "Distribution of the tokens.")
@click.option("--exponent", type=float, default=1.1, show_default=True, help="zipf: P(token t) ~ (t + 1)^-exponent.")
@click.option("--learnable", is_flag=True, help="Tokens follow a rule: a falling loss proves that training works.")
@count_option("--shards", "Number of files: PREFIX_00000.bin and so on.", default=1)
@workers_option
@json_option
def command(
    output: Path,
    tokens: int | None,
    samples: int | None,
    seq_length: int | None,
    workers: int,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Make a data set for Megatron: PREFIX.bin, PREFIX.idx and the manifest PREFIX.json.

    \b
    datagen tokens --output data/llama --tokens 1e9 --vocab-size 128256
    """
    with parameter_errors():
        chosen = Parameters(tokens=_tokens(tokens, samples, seq_length), **parameters)
    make_and_print(output, partial(make_tokens, output, chosen, workers), as_json=as_json)


def _tokens(tokens: int | None, samples: int | None, seq_length: int | None) -> int:
    """The number of tokens; UserError unless the options give exactly one size."""
    if tokens is not None and samples is None and seq_length is None:
        return tokens
    if tokens is None and samples is not None and seq_length is not None:
        return samples * seq_length + 1  # one more token, the label of the last one
    raise UserError(
        "the size of the data set is missing or ambiguous", hint="give --tokens, or --samples and --seq-length"
    )
