"""Run a command line: an expected error becomes a message and an exit code, without a
traceback.
"""

import io
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from benchrun import extensions, kept
from benchrun.errors import BenchrunError, closest, exit_code_of
from benchrun.vocabulary import Exit

MEANT = {
    "--nodes": "benchrun counts GPUs: --num-gpus with the nodes times the GPUs of a node",
    "--gpus": "--num-gpus has their number, --gpu their name",
}
"""Option that users of other programs expect -> what is meant here."""


class Verbs(click.Group):
    """A group that lists its verbs without importing them, so that ``--help`` answers
    at once.
    """

    def __init__(
        self,
        *args: Any,
        verbs: dict[str, tuple[str, str]],
        group: str | None = None,
        **settings: Any,
    ) -> None:
        """``verbs``: name -> module, which has a function of this name, and help.

        ``group``: the group of entry points in which packages add verbs.
        """
        super().__init__(*args, **settings)
        self._verbs, self._group = verbs, group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._verbs, *self._added()]

    def _added(self) -> list[str]:
        """The names of the verbs that packages add; one of benchrun's own names stays
        benchrun's.
        """
        if self._group is None:
            return []
        found = []
        for name in extensions.installed(self._group):
            if name not in self._verbs:
                found.append(name)
        return found

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = None
        if cmd_name in self._verbs:
            command = extensions.imported(f"{self._verbs[cmd_name][0]}:{cmd_name}")
        elif self._group and cmd_name in self._added():
            command = extensions.load(self._group, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = closest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"No such command '{args[0]}'; {hint}", ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            rows = [(name, text) for name, (_, text) in self._verbs.items()]
            for name in self._added():
                command = self.get_command(ctx, name)
                rows.append((name, command.get_short_help_str(60) if command else ""))
            formatter.write_dl(rows)


def _where(error: OSError) -> str:
    """The file of an error, as the begin of its message; a removed current directory is
    a file without a name.
    """
    if error.filename:
        return f"{error.filename}: "
    try:
        Path.cwd()
    except OSError:
        return "the current directory: "
    return ""


def run(group: click.Group, name: str, argv: list[str] | None = None) -> Any:
    """Run ``group`` with ``argv``, or the arguments of the process, and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may not be valid UTF-8
    completing = f"_{name.upper()}_COMPLETE" in os.environ
    try:
        code = group.main(args=argv, prog_name=name, standalone_mode=False)
    except SystemExit:
        if completing:
            raise
        # Click and rich exit with 1 on a closed pipe, which would mean "slow".
        sys.exit(Exit.CLOSED_PIPE)
    except click.exceptions.Abort:
        sys.exit(Exit.INTERRUPTED)
    except click.ClickException as error:
        if (
            isinstance(error, click.NoSuchOption)
            and error.option_name in MEANT
            and "--num-nodes" not in (error.possibilities or ())
        ):
            text = f"No such option '{error.option_name}': {MEANT[error.option_name]}."
            error = click.NoSuchOption(error.option_name, text, ctx=error.ctx)
        error.show()
        sys.exit(Exit.USER)
    except BenchrunError as error:
        click.echo(kept.shown(f"error: {error}"), err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a full or read-only disk, or missing permission
        click.echo(kept.shown(f"error: {_where(error)}{error.strerror or error}"), err=True)
        sys.exit(exit_code_of(error))
    except Exception:  # a defect of this program: Python's own exit code 1 would mean "slow"
        traceback.print_exc()
        sys.exit(Exit.MACHINE)
    sys.exit(code or Exit.OK)
