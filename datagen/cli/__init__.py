"""The command line: each verb is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from benchrun.console import run

VERBS = {
    "tokens": "A Megatron indexed data set (.bin, .idx).",
    "sft": "Instruction data: JSONL, or packed for NeMo.",
    "tokenizer": "A local tokenizer directory.",
    "inspect": "What is in a file, and whether it is still so.",
}


class Verbs(click.Group):
    """Lists verbs without importing them."""

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
    """Synthetic training data, without a download.

    The same parameters give the same bytes, with any number of workers. PREFIX.json says what was made and how; an
    interrupted command, repeated, goes on from where it stopped.
    """


def main(argv: list[str] | None = None) -> Any:
    """Entry point."""
    return run(group, "datagen", argv)
