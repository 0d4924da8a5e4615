"""The Megatron-LM command uses only flags that its own parser has."""

import re
from pathlib import Path

import pytest

from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render

# Every --flag that megatron/training/arguments.py adds at the tag core_v0.13.0.
FLAGS = set((Path(__file__).parent / "megatron_lm_core_v0.13.0_flags.txt").read_text().split())
FILES = [catalogue.recipe_file(name) for name in catalogue.trainings()]


@pytest.mark.parametrize("file", [f for f in FILES if "megatron-lm" in f.recipe.frameworks], ids=lambda file: file.name)
def test_every_flag_exists_in_the_release_the_image_carries(file: catalogue.RecipeFile) -> None:
    commands = {
        render(resolve_point(file, point))["job.sh"].split("command=(")[1].split("\n)\n")[0]
        for point in catalogue.points(file.recipe)
        if point.framework == "megatron-lm"
    }
    for command in commands:
        used = set(re.findall(r"\s(--[a-z0-9-]+)", command))
        assert "--num-layers" in used
        assert used <= FLAGS, used - FLAGS
