"""``datagen tokens``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from benchrun.errors import UserError
from datagen.cli import options
from datagen.maker import make_tokens
from datagen.tokens import Parameters


@click.command("tokens")
@options.output_option
@click.option("--tokens", type=options.Count(), help=Parameters.model_fields["tokens"].description)
@click.option("--samples", type=options.Count(), help="Number of training samples, with --seq-length.")
@click.option("--seq-length", type=options.Count(), help="Tokens per training sample.")
@options.parameter_options(Parameters, "tokens")
@options.workers_option
@options.json_option
def command(output: Path, workers: int, as_json: bool, **parameters: Any) -> None:
    """Make a data set for Megatron: PREFIX.bin, PREFIX.idx and the manifest PREFIX.json.

    \b
    datagen tokens --output data/llama --tokens 1e9 --vocab-size 128256
    """
    size = [parameters.pop(name) for name in ("tokens", "samples", "seq_length")]
    chosen = options.parse(Parameters, tokens=_tokens(*size), **parameters)
    options.make_and_print(output, partial(make_tokens, output, chosen, workers), as_json=as_json)


def _tokens(tokens: int | None, samples: int | None, seq_length: int | None) -> int:
    """The number of tokens. UserError unless the options give exactly one size."""
    if tokens is not None and samples is None and seq_length is None:
        return tokens
    if tokens is None and samples is not None and seq_length is not None:
        return samples * seq_length + 1  # the last sample needs one more token as its label
    raise UserError("the size is missing or ambiguous", hint="give --tokens, or --samples and --seq-length")
