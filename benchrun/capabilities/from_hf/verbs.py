"""The verb recipe."""

from pathlib import Path

import click

from benchrun import api
from benchrun.cli.options import FILE, say
from benchrun.files import check_new, write_new


@click.group("recipe")
def recipe() -> None:
    """A recipe: what is trained, and how it is spread over GPUs."""


@recipe.command("from-hf", short_help="Write a recipe for a model of Hugging Face.")
@click.argument("config_json", type=FILE)
@click.option("--output", type=FILE, metavar="FILE", help="Write the recipe into a new FILE.")
def from_hf(config_json: Path, output: Path | None) -> None:
    """Write a recipe for the model that CONFIG_JSON (or its folder) describes, on stdout or
    into a new file.

    Each point has the layout that fits and is predicted to be fastest, for H100, H200 and
    B200; other GPUs borrow the closest one. What a recipe cannot represent is refused by its
    key and line.
    """
    if output:
        check_new(output)
    new = api.recipe_from_hf(config_json)
    if output:
        write_new(output, new.text)
    else:
        click.echo(new.text, nl=False)
    for remark in new.remarks:
        say(remark)
    if output:
        say(f"wrote {output}; see it with: benchrun list {output}")
