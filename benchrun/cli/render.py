"""benchrun render: the script of one point, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchrun.cli.options import point_options, request, say
from benchrun.errors import UserError


@click.command("render")
@point_options
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Write all files into DIR.")
def command(output: Path | None, **point: Any) -> None:
    """The script that would be submitted, on stdout; with --output everything that belongs to it."""
    from benchrun.launch.rundir import write_files
    from benchrun.recipe.resolve import resolve
    from benchrun.render import render

    spec = resolve(request(**point))
    files = render(spec)
    if output is None:
        click.echo(files["job.sh"], nl=False)
        return
    try:
        write_files(output, spec, files)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=str(output)) from error
    say(f"wrote {', '.join(sorted(files))} to {output}")
