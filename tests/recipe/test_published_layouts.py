"""No layout that was published for H100 or H200 is refused, also where its batch is not the recipe's."""

from dataclasses import replace
from typing import Any

import pytest

from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.judge.conditions import Conditions
from benchrun.judge.references import load_references
from benchrun.recipes import catalogue
from benchrun.recipes.catalogue import Point, RecipeFile
from benchrun.recipes.resolve import resolve_point
from benchrun.vocabulary import DEGREES

JAX = ("maxtext", "paxml")
"""Their published layouts are FSDP over all GPUs, for which the references have no column."""

IN_ONE_BYTE = ("lora", 1, 2)
"""MLPerf's whole Llama 2 70B on each H200: its own implementation keeps what enters an activation in one byte, which no
framework here is told to. With recompute its layout fits, without it would be refused."""
UNPRINTED = ("deepseek-v3", "gpt-oss-120b", "llama4-maverick", "nemotron3-22b")
"""Which activations were computed again is not printed, and the estimate of memory needs some to be."""
FULL = "{granularity: full, method: uniform, num_layers: 1}"


def whole(key: Any) -> Any:
    """Whether everything that the arithmetic of a layout needs was published, of a framework that is launched here."""
    said = (key.num_gpus, key.gbs, key.seq_length, key.num_layers, key.tp)
    ours = key.framework in (None, *FRAMEWORKS) and (key.framework not in JAX or key.task == "pretrain")
    return key.gpu in ("H100", "H200") and key.precision in ("bf16", "fp8") and ours and None not in said


PUBLISHED = [entry for entry in load_references() if whole(entry.key)]


def likest(file: RecipeFile, key: Conditions) -> Point:
    """The point to set a published layout on: its framework's, else another; then its precision, then its layers."""
    layers = file.recipe.model.num_layers

    def unlike(point: Any) -> Any:
        return (
            point.framework != (key.framework or "megatron-lm"),
            point.precision != key.precision,
            (point.group.num_layers or layers) != key.num_layers,
            point.group.mbs != (key.mbs or point.group.mbs),
            abs(point.num_gpus - key.num_gpus),
        )

    point = min((p for p in catalogue.points(file.recipe) if p.gpu == key.gpu), key=unlike)
    return replace(point, num_gpus=key.num_gpus, precision=key.precision)


def uneven(layers: int, predictions: int, stages: int) -> str:
    """Stages of as equal a number of layers as there can be, the first and the last with fewer."""
    sizes = [
        (layers + 2 + predictions) * (i + 1) // stages - (layers + 2 + predictions) * i // stages for i in range(stages)
    ]
    letters = "E" + "t" * layers + "m" * predictions + "L"
    ends = [sum(sizes[: i + 1]) for i in range(stages)]
    return "|".join(letters[end - size : end] for size, end in zip(sizes, ends, strict=True))


def overrides(key: Conditions, longest: int, predictions: int) -> tuple[str, ...]:
    degrees = {name: getattr(key, name) for name in DEGREES if getattr(key, name) is not None}
    if key.pp == 1 or not key.framework:
        degrees.setdefault("vp", 1)
    chunks = (key.pp or 1) * (degrees.get("vp") or 1)
    if predictions and key.num_layers % chunks:
        degrees["stages"] = uneven(key.num_layers, predictions, chunks)
    elif key.num_layers % (key.pp or 1):
        degrees["account_for_embedding_and_loss"] = "true"
    said = {
        **{f"layout.{name}": degree for name, degree in degrees.items()},
        "layout.sequence_parallel": str(key.tp > 1).lower(),
        "layout.fsdp": key.num_gpus if key.framework in JAX else 1,
        **{"gbs": key.gbs, "seq_length": key.seq_length, "model.num_layers": key.num_layers},
        "model.max_position_embeddings": max(key.seq_length, longest),
        **({"mbs": key.mbs} if key.mbs else {}),
        **({"training.tp_comm_overlap": "false"} if key.tp == 1 else {}),
        **({"training.recompute": FULL} if (key.task, key.tp, key.cp) == IN_ONE_BYTE else {}),
        **({"training.recompute": f"{FULL[:-1]}, modules: null}}"} if key.recipe in UNPRINTED else {}),
    }
    return tuple(f"{name}={value}" for name, value in said.items())


def test_there_are_hundreds() -> None:
    assert len(PUBLISHED) > 350


@pytest.mark.parametrize("recipe", sorted({entry.key.recipe for entry in PUBLISHED}))
def test_every_published_layout_is_accepted(recipe: str) -> None:
    file = catalogue.recipe_file(recipe)
    for key in (entry.key for entry in PUBLISHED if entry.key.recipe == recipe):
        model = file.recipe.model
        point, more = likest(file, key), overrides(key, model.max_position_embeddings, model.mtp_layers)
        spec = resolve_point(file, point, overrides=more)
        assert (spec.gbs, spec.num_gpus, spec.layout.tp) == (key.gbs, key.num_gpus, key.tp)
