"""The verb recipe."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchrun import api
from benchrun.cli.options import FILE, say
from benchrun.files import check_new, write_new

if TYPE_CHECKING:
    from benchrun.api import NewRecipe


@click.group("recipe")
def recipe() -> None:
    """A recipe: what is trained, and how it is spread over GPUs."""


@recipe.command("from-hf", short_help="Write a recipe for a model of Hugging Face.")
@click.argument("config_json", type=FILE)
@click.option("--output", type=FILE, metavar="FILE", help="Write the recipe into a new FILE.")
@click.option(
    "--serve",
    "checkpoint",
    metavar="NAME|FOLDER",
    help="Write the recipe of servers that load these weights.",
)
def from_hf(config_json: Path, output: Path | None, checkpoint: str | None) -> None:
    """Write a recipe for the model that CONFIG_JSON (or its folder) describes, on stdout or
    into a new file.

    Each point has the layout that fits and is predicted to be fastest, for H100, H200 and
    B200; other GPUs borrow the closest one. What a recipe cannot represent is refused by its
    key and line.

    --serve has a name on Hugging Face, or a folder as the nodes see it: the recipe is then
    one of vLLM and SGLang on the GPUs of a node.
    """
    if output:
        check_new(output)
    new = _recipe(config_json, checkpoint)
    if output:
        write_new(output, new.text)
    else:
        click.echo(new.text, nl=False)
    for remark in new.remarks:
        say(remark)
    if output:
        say(f"wrote {output}; see it with: benchrun list {output}")


def _recipe(config: Path, checkpoint: str | None) -> "NewRecipe":
    if checkpoint:
        return api.server_recipe_from_hf(config, checkpoint)
    return api.recipe_from_hf(config)
