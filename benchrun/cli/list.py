"""benchrun list: every point of every recipe."""

from __future__ import annotations

import click

from benchrun import app
from benchrun.cli.options import json_option, print_json

HIDDEN = ("task", "image")
"""Keys of a row that only JSON has."""


@click.command("list")
@click.argument("recipes", nargs=-1)
@click.option("--gpu", help="Only points for this GPU.")
@json_option
def command(recipes: tuple[str, ...], gpu: str | None, as_json: bool) -> None:
    """Every point of every recipe, or of RECIPES: layout, batch, image, number of reference entries."""
    from benchrun.report.table import Column, Table, plain

    rows = app.list_points(recipes, gpu)
    if as_json:
        print_json(rows)
        return
    names = [name for name in rows[0] if name not in HIDDEN]
    table = Table(tuple(map(Column, names)), [[row[name] for name in names] for row in rows], missing="None")
    click.echo(plain(table), nl=False)
