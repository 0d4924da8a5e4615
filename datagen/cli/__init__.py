"""The command line; the module of a verb is imported when the verb is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from benchrun.console import run

VERBS = {
    "tokens": "Make a Megatron indexed data set (.bin, .idx).",
    "sft": "Make instruction data: JSONL, or packed for NeMo.",
    "tokenizer": "Make a local tokenizer directory.",
    "inspect": "Show the content of a data set and check it.",
}


class Verbs(click.Group):
    """A group that lists its verbs without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"datagen.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """Make synthetic training data, without a download.

    The same parameters give the same bytes, with any number of workers. The manifest PREFIX.json lists parameters,
    content and checksums. An interrupted command resumes when it is repeated.
    """


def main(argv: list[str] | None = None) -> Any:
    """Run the command line with ``argv``, or the arguments of the process, and exit."""
    return run(group, "datagen", argv)
