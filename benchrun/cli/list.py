"""benchrun list: every point of every recipe."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from benchrun.cli.options import json_option, print_json
from benchrun.errors import UserError


@click.command("list")
@click.argument("recipes", nargs=-1)
@click.option("--gpu", help="Only points for this GPU.")
@json_option
def command(recipes: tuple[str, ...], gpu: str | None, as_json: bool) -> None:
    """Every point of every recipe, or of RECIPES: layout, batch, image, number of reference entries."""
    rows = _rows(recipes, gpu)
    if as_json:
        print_json(rows)
        return
    for line in _table(rows):
        click.echo(line)


def _rows(recipes: tuple[str, ...], gpu: str | None) -> list[dict[str, Any]]:
    from benchrun import paths
    from benchrun.compare import Conditions, load_references, matching
    from benchrun.compare.conditions import HARD, besides_recipe
    from benchrun.recipe import catalogue
    from benchrun.recipe.listing import listed

    published = defaultdict(list)
    for entry in load_references():
        published[besides_recipe(entry.key)].append(entry)
    files = [catalogue.recipe_file(name) for name in recipes or catalogue.names(paths.RECIPES)]
    rows = [row for file in files for row in listed(file, gpu)]
    if not rows:
        having = sorted({point.gpu for file in files for point in catalogue.points(file.recipe)})
        raise UserError(f"no point is for --gpu {gpu}", hint=f"there are points for {', '.join(having)}")
    for row in rows:
        ours = Conditions(**{name: row[name] for name in HARD})
        row["reference"] = len(matching(ours, published[besides_recipe(ours)]))
        del row["num_layers"], row["dimensions"]
    return rows


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Plain columns: greppable, and as wide as they need to be."""
    hidden = ("task", "image")
    columns = [column for column in (rows[0] if rows else {}) if column not in hidden]
    cells = [tuple(columns), *[tuple(str(row[column]) for column in columns) for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
