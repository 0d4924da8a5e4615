"""benchrun render: the script of one point, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchrun import app
from benchrun.cli.options import point_options, say
from benchrun.spec.artifacts import JOB


@click.command("render")
@point_options
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Write all files into DIR.")
def command(output: Path | None, **point: Any) -> None:
    """The script that would be submitted, on stdout; with --output everything that belongs to it."""
    spec = app.resolve_point(app.Request(**point))
    if output is None:
        click.echo(app.render(spec)[JOB], nl=False)
    else:
        say(f"wrote {', '.join(app.write_files(output, spec))} to {output}")
