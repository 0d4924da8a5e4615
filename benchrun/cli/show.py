"""benchrun show: one point, resolved."""

from __future__ import annotations

from typing import Any

import click

from benchrun import app
from benchrun.cli.options import json_option, point_options, print_json


@click.command("show")
@point_options
@json_option
def command(as_json: bool, **point: Any) -> None:
    """One point with nothing implicit: model, layout and its arithmetic, FLOPs, memory per GPU, reference numbers."""
    document = app.describe(app.resolve_point(app.Request(**point)))
    if as_json:
        print_json(document)
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False, width=110, default_flow_style=False).rstrip())
