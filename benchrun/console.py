"""Run a command line: an expected error becomes a message and an exit code, without a traceback."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Any

import click

from benchrun.errors import BenchrunError, exit_code
from benchrun.vocabulary import Exit


def run(group: click.Group, name: str, argv: list[str] | None = None) -> Any:
    """Run ``group`` with ``argv``, or the arguments of the process, and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may not be valid UTF-8
    try:
        code = group.main(args=argv, prog_name=name, standalone_mode=False)
    except SystemExit:
        sys.exit(Exit.CLOSED_PIPE)  # click and rich exit with 1 on a closed pipe, which would mean "slow"
    except click.exceptions.Abort:
        sys.exit(Exit.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.USER)
    except BenchrunError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a full or read-only disk, or missing permission
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(Exit.MACHINE)
    except Exception as error:  # a defect of this program: Python's own exit code 1 would mean "slow"
        traceback.print_exc()
        sys.exit(exit_code(error))
    sys.exit(code or Exit.OK)
