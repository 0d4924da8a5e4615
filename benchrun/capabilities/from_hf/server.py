"""The text of a recipe for a server of a model that Hugging Face describes."""

from pathlib import Path
from typing import Any

from benchrun.errors import UserError
from benchrun.paths import table
from benchrun.recipes.catalogue import RecipeFile, checked, points
from benchrun.recipes.resolve import resolve_point
from benchrun.recipes.schema import Recipe
from benchrun.recipes.yamlfile import Document, parse

from .config import config_file
from .families import shape_of
from .layouts import GPUS
from .recipe import NewRecipe, head, joined, listed_points, model_name, parameters

SIZES = (1, 2, 4, 8)
"""GPUs of a node over which a layer is split."""
TOKENS = 1024
"""Of a prompt, and of an answer."""
CONCURRENCY = 64
DERIVED = "the fewest GPUs of a node that hold the weights and leave room for the cache, or all"


def server_recipe_from_hf(path: Path, checkpoint: str) -> NewRecipe:
    """A recipe of servers that load ``checkpoint``, a name on Hugging Face or a folder,
    for the configuration at ``path``. UserError as `recipe_from_hf`.
    """
    config = config_file(path)
    model, notes = shape_of(config)
    name = checkpoint.rstrip("/").rpartition("/")[2]
    tokens = min(TOKENS, model.max_position_embeddings // 2)
    keys = {
        "description": f"{name}, inference",
        "workload": "inference",
        "task": "serve",
        "model": model.model_dump(exclude_defaults=True),
        "checkpoint": checkpoint,
        "input_tokens": tokens,
        "output_tokens": tokens,
        "frameworks": {row["framework"]: {"image": row["image"]} for row in table(__file__)},
    }
    tried = []
    for size in SIZES:
        for gpu in GPUS:
            tried.append(_group(gpu, _precision(config), size))
    document = parse(head(keys) + listed_points(tried), str(path))
    file = RecipeFile(model_name(config), checked(Recipe, document), document)
    groups = joined(_fitting(file, tried), "gpu")
    remarks = [parameters(model), *(f"left out: {note}" for note in notes)]
    return NewRecipe(head(keys, remarks) + listed_points(groups), remarks)


def _group(gpu: str, precision: str, size: int) -> dict[str, Any]:
    own = {"gpu": [gpu], "precision": [precision], "num_gpus": [size], "tp": size}
    return own | {"concurrency": CONCURRENCY, "derived": DERIVED}


def _precision(config: Document) -> str:
    """The precision of the released weights. UserError for one that no point has."""
    stated = config.get("quantization_config")
    if not stated:
        return "bf16"
    method = stated.get("quant_method") if isinstance(stated, dict) else stated
    if method != "fp8":
        what = f"'quantization_config' has {method!r}: a server is measured in bf16 or fp8"
        raise UserError(what, where=config.where(("quantization_config",)))
    return "fp8"


def _fitting(file: RecipeFile, tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each GPU the smallest and the largest size that every framework can run.
    UserError with the reason if there is none.
    """
    legal: dict[str, list[dict[str, Any]]] = {}
    reason: UserError | None = None
    for index, group in enumerate(tried):
        try:
            for point in points(file.recipe):
                if point.index == index:
                    resolve_point(file, point, to_launch=False)
        except UserError as error:
            reason = error
        else:
            legal.setdefault(group["gpu"][0], []).append(group)
    if not legal and reason:
        raise reason
    chosen = []
    for groups in legal.values():
        chosen.append(groups[0])
        if len(groups) > 1:
            chosen.append(groups[-1])
    return chosen
