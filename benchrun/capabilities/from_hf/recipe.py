"""The text of a recipe for a model that Hugging Face describes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from benchrun.errors import UserError
from benchrun.frameworks.registry import framework
from benchrun.memory import estimate
from benchrun.model import ModelShape
from benchrun.model.features import features
from benchrun.paths import table
from benchrun.recipes.catalogue import RecipeFile, checked, points
from benchrun.recipes.schema import TrainingRecipe
from benchrun.recipes.yamlfile import Document, parse

from .config import config_file
from .families import shape_of
from .layouts import GPUS, SIZES, Fit, fits

LONGEST_SEQUENCE = 4096
PRECISIONS = ["bf16", "fp8"]
BATCH_PER_GPU = 4
"""Sequences of a step for each GPU: the same work in every layout."""
COMMON = {
    "gbs_per_gpu": BATCH_PER_GPU,
    "derived": "predicted to be the fastest layout that fits, without virtual stages and context "
    "parallelism; study --tune searches these too",
}
"""Keys of each group of points."""


@dataclass(frozen=True)
class NewRecipe:
    """A recipe as text, and what to say about it."""

    text: str
    remarks: list[str]


def recipe_from_hf(path: Path) -> NewRecipe:
    """A recipe for the configuration at ``path``, a file or a model's folder. UserError
    with file:line for what a recipe cannot represent. Nothing is written.
    """
    config = config_file(path)
    model, notes = shape_of(config)
    name = model_name(config)
    launched = _frameworks(model)
    first = next(iter(launched))
    keys = _keys(model, name, launched)
    everything = {"gpu": [*GPUS], "precision": PRECISIONS, "num_gpus": [*SIZES], "mbs": 1}
    document = parse(head(keys) + listed_points([everything | COMMON]), str(path))
    recipe = checked(TrainingRecipe, document)
    listed = [each for each in points(recipe) if each.framework == first]
    found = fits(RecipeFile(name, recipe, document), listed)
    remarks = [parameters(model), *(f"left out: {note}" for note in notes)]
    text = head(keys, remarks) + listed_points(_groups(found))
    return NewRecipe(text, [*remarks, *_lines(found)])


def _frameworks(model: ModelShape) -> dict[str, Any]:
    """The frameworks of recipe.csv that can train the model, with their settings."""
    needed = {*features(model)}
    entries = {}
    for row in table(__file__):
        if needed <= framework(row["framework"]).features:
            training = {"fp8": {"recipe": row["fp8_recipe"]}}
            entries[row["framework"]] = {"image": row["image"], "training": training}
    if not entries:
        raise UserError(f"no framework trains a model with {', '.join(sorted(needed))}")
    return entries


def parameters(model: ModelShape) -> str:
    main = model.model_copy(update={"mtp_layers": 0})
    text = f"{main.params_total:,} parameters"
    if model.moe:
        text += f", {main.params_active / 1e9:.2f} G of them active"
    if model.mtp_layers:
        more = model.params_total - main.params_total
        text += f"; {more / 1e9:.2f} G more in multi-token predictions"
    return text


def model_name(config: Document) -> str:
    """The name of a model: that of its file, or of its folder."""
    place = Path(config.place.rpartition(":")[0])
    if place.name == "config.json":
        return place.resolve().parent.name
    return place.stem


def _keys(model: ModelShape, name: str, launched: dict[str, Any]) -> dict[str, Any]:
    """All keys but the points."""
    return {
        "description": f"{name}, pretraining from random weights",
        "task": "pretrain",
        "model": model.model_dump(exclude_defaults=True),
        "seq_length": min(model.max_position_embeddings, LONGEST_SEQUENCE),
        "frameworks": launched,
    }


def head(keys: dict[str, Any], remarks: Sequence[str] = ()) -> str:
    """The text of a recipe above its points, which begins with ``remarks``."""
    text = "# Written by benchrun recipe from-hf.\n"
    for remark in remarks:
        text += f"# {remark}\n"
    for key, value in keys.items():
        text += _yaml({key: value})
    return text


def _groups(found: list[Fit]) -> list[dict[str, Any]]:
    """Groups of points that share a layout: first the numbers of GPUs, then the
    precisions, then the GPUs."""
    groups: list[dict[str, Any]] = []
    for fit in found:
        spec = fit.spec
        own = {"gpu": [spec.gpu], "precision": [spec.precision], "num_gpus": [spec.num_gpus]}
        groups.append(own | fit.stated | COMMON)
    for key in ("num_gpus", "precision", "gpu"):
        groups = joined(groups, key)
    return groups


def joined(groups: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """``groups`` in which those that differ in ``key`` alone are one."""
    joined: list[dict[str, Any]] = []
    for group in groups:
        for other in joined:
            if other | {key: group[key]} == group:
                other[key] = [*other[key], *group[key]]
                break
        else:
            joined.append(group)
    return joined


def listed_points(groups: list[dict[str, Any]]) -> str:
    """The text of the points."""
    text = "points:\n"
    for group in groups:
        own = dict(group)
        for key in ("gpu", "precision", "num_gpus"):
            if len(own[key]) == 1:
                (own[key],) = own[key]
        lines = _yaml(own).splitlines()
        text += f"  - {lines[0]}\n" + "".join(f"    {line}\n" for line in lines[1:])
    return text


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, width=100, default_flow_style=None)
    if text.startswith("{"):  # a mapping without lists and mappings is one line
        text = yaml.safe_dump(value, sort_keys=False, width=100, default_flow_style=False)
    return text


def _lines(found: list[Fit]) -> Iterator[str]:
    """The layouts in words, a line for each number of GPUs."""
    for _, same in groupby(found, lambda fit: (fit.spec.gpu, fit.spec.num_gpus)):
        fits_here = [*same]
        first = fits_here[0].spec
        yield f"{first.num_gpus} x {first.gpu}: {'; '.join(map(_words, fits_here))}"


def _words(fit: Fit) -> str:
    spec = fit.spec
    words = [f"{name} {size}" for name, size in spec.layout.degrees if size > 1]
    words.append(f"mbs {spec.mbs}")
    if spec.training.recompute.granularity == "full":
        words.append("full recompute")
    need = f"{estimate(spec).total:.0f} GiB, {fit.prediction.median:.3g} s a step"
    return f"{spec.precision} {need} ({', '.join(words)})"
