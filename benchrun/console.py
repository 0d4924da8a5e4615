"""How a command of this product ends: expected errors are one message and an exit code, never a traceback."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Any

import click

from benchrun.errors import BenchrunError, MachineError

CLOSED_PIPE = 141
"""What a shell gives for a program whose reader went away, as ``head`` does."""


def run(group: click.Group, name: str, argv: list[str] | None = None) -> Any:
    """Run ``group`` with the process's arguments, or ``argv``, and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    try:
        code = group.main(args=argv, prog_name=name, standalone_mode=False)
    except SystemExit:
        sys.exit(CLOSED_PIPE)  # click and rich end so, with 1, where nobody reads any more: that is no verdict
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BenchrunError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a full or read-only disk, or somebody else's directory
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(MachineError.exit_code)
    except Exception:  # a fault of this program: 1 would say that something was measured and slow
        traceback.print_exc()
        sys.exit(MachineError.exit_code)
    sys.exit(code or 0)
