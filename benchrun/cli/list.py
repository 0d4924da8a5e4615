"""benchrun list: every point of every recipe."""

from __future__ import annotations

from typing import Any

import click

from benchrun.cli.options import json_option, print_json


@click.command("list")
@click.argument("recipes", nargs=-1)
@click.option("--gpu", help="Only points for this GPU.")
@json_option
def command(recipes: tuple[str, ...], gpu: str | None, as_json: bool) -> None:
    """Every point of every recipe, or of RECIPES: layout, batch, image, number of reference entries."""
    rows = [row for row in _rows(recipes) if gpu is None or row["gpu"].lower() == gpu.lower()]
    if as_json:
        print_json(rows)
        return
    for line in _table(rows):
        click.echo(line)


def _rows(recipes: tuple[str, ...]) -> list[dict[str, Any]]:
    from benchrun import paths
    from benchrun.compare import conditions, load_references, matching
    from benchrun.recipe import catalogue
    from benchrun.recipe.resolve import resolve_point

    references = load_references()
    rows = []
    for name in recipes or catalogue.names(paths.RECIPES):
        file = catalogue.recipe_file(name)
        published = [entry for entry in references if entry.key.recipe == name]
        for point in catalogue.points(file.recipe):
            spec = resolve_point(file, point)
            layout = {key: getattr(spec.layout, key) for key in ("tp", "pp", "cp", "vp", "ep")}
            keys = ("recipe", "task", "framework", "gpu", "precision", "num_gpus", "proxy", "seq_length", "mbs", "gbs")
            rows.append(
                {key: getattr(spec, key) for key in keys}
                | layout
                | {"dp": spec.dp, "image": spec.image, "reference": len(matching(conditions(spec), published))}
            )
    return rows


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Plain columns: greppable, and as wide as they need to be."""
    hidden = ("task", "proxy", "image")
    columns = [column for column in (rows[0] if rows else {}) if column not in hidden]
    cells = [tuple(columns), *[tuple(str(row[column]) for column in columns) for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
