"""``datagen tokens``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from benchrun.errors import UserError
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
from datagen.maker import make_tokens
from datagen.tokens import Parameters


@click.command("tokens")
@output_option
@click.option("--tokens", type=Count(), help="How many, e.g. 1e9.")
@click.option("--samples", type=Count(), help="Instead of --tokens, with --seq-length: so many training samples.")
@click.option("--seq-length", type=Count(), help="Of a sample.")
@click.option("--vocab-size", type=Count(), required=True, help="With the end-of-document token, which is the last.")
@seed_option
@click.option(
    "--documents",
    type=click.Choice(["fixed", "lognormal", "zipf"]),
    default="lognormal",
    show_default=True,
    help="How the lengths of documents are distributed.",
)
@click.option("--mean-length", type=Count(), default=1024, show_default=True, help="Of a document, in tokens.")
@click.option("--distribution", type=click.Choice(["uniform", "zipf"]), default="zipf", show_default=True)
@click.option(
    "--exponent", type=float, default=1.1, show_default=True, help="Token t is as frequent as (t + 1)^-exponent."
)
@click.option("--learnable", is_flag=True, help="Tokens follow a rule: a falling loss proves that training works.")
@click.option("--shards", type=Count(), default=1, show_default=True, help="PREFIX_00000.bin and so on.")
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
    """Write PREFIX.bin, PREFIX.idx and the manifest PREFIX.json: a data set that Megatron reads.

    \b
    datagen tokens --output data/llama --tokens 1e9 --vocab-size 128256
    """
    with parameter_errors():
        chosen = Parameters(tokens=_tokens(tokens, samples, seq_length), **parameters)
    start = time.perf_counter()
    with progress_bar(output.name) as progress:
        manifest, new = make_tokens(output, chosen, workers, progress)
    say_made(output, manifest, new, time.perf_counter() - start, as_json=as_json)


def _tokens(tokens: int | None, samples: int | None, seq_length: int | None) -> int:
    if (tokens is None) == (samples is None) or (samples is None) != (seq_length is None):
        raise UserError("how much data?", hint="give --tokens, or --samples and --seq-length")
    # One more than the samples hold: the label of the last token.
    return tokens if tokens is not None else samples * seq_length + 1  # type: ignore[operator]
