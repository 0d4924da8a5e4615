"""Run a command line: an expected error becomes a message and an exit code, without a traceback."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Any

import click

from benchrun.errors import BenchrunError, MachineError

CLOSED_PIPE = 141
"""Exit code that a shell reports for a broken pipe, for example into ``head``."""


def run(group: click.Group, name: str, argv: list[str] | None = None) -> Any:
    """Run ``group`` with ``argv``, or the arguments of the process, and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may be invalid UTF-8
    try:
        code = group.main(args=argv, prog_name=name, standalone_mode=False)
    except SystemExit:
        sys.exit(CLOSED_PIPE)  # click and rich exit with 1 on a broken pipe, but 1 is the exit code of a verdict
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BenchrunError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a full or read-only disk, or missing permission
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(MachineError.exit_code)
    except Exception:  # a bug: not 1, which is the exit code of a slow result
        traceback.print_exc()
        sys.exit(MachineError.exit_code)
    sys.exit(code or 0)
