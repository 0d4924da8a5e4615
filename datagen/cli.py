"""The command line; the module of a verb is imported when the verb is called."""

from typing import Any

import click

from benchrun.console import Verbs, run

VERBS = {
    "tokens": ("datagen.commands", "Make a Megatron indexed data set (.bin, .idx)."),
    "sft": ("datagen.commands", "Make instruction data: JSONL, or packed for NeMo."),
    "tokenizer": ("datagen.commands", "Make a local tokenizer directory."),
    "inspect": ("datagen.commands", "Show the content of a data set and check it."),
}


@click.group(cls=Verbs, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """Make synthetic training data, without a download.

    The same parameters give the same bytes, with any number of workers. The manifest
    PREFIX.json lists parameters, content and checksums. An interrupted command resumes
    when it is repeated.
    """


def main(argv: list[str] | None = None) -> Any:
    """Run the command line with ``argv``, or the arguments of the process, and exit."""
    return run(group, "datagen", argv)
