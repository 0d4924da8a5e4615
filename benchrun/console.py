"""How a command of this product ends: expected errors are one message and an exit code, never a traceback."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchrun.errors import BenchrunError


def run(group: click.Group, name: str, argv: list[str] | None = None) -> Any:
    """Run ``group`` with the process's arguments, or ``argv``, and exit."""
    try:
        sys.exit(group.main(args=argv, prog_name=name, standalone_mode=False) or 0)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BenchrunError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
