"""Choosing one point of a recipe from what the user asked for."""

from dataclasses import dataclass, field, replace
from typing import Any

from benchrun.errors import UserError, closest
from benchrun.recipe.catalogue import Point, RecipeFile, points

KEYS = ("framework", "gpu", "precision", "num_gpus")


@dataclass(frozen=True)
class Request:
    """A point as the user names it; None is allowed where there is only one value."""

    recipe: str
    gpu: str | None = None
    precision: str | None = None
    num_gpus: int | None = None
    framework: str | None = None
    cluster: str | None = None
    overrides: tuple[str, ...] = field(default=())
    """``key=value``, applied in order."""


def select(file: RecipeFile, request: Request) -> Point:
    """The point that ``request`` names, scaled from a listed one if its number of GPUs is not listed.

    Among points that differ in batch or sequence length it is the one that ``--set`` names, else the first. UserError
    names what is missing and the alternatives.
    """
    listed = points(file.recipe)
    suitable = {point.framework for point in listed if _agree(point, request, KEYS[1:])}
    first = min(file.recipe.frameworks, key=lambda name: name not in suitable)
    wanted = replace(request, framework=request.framework or first)
    if scaled := _scaled(listed, wanted):
        return scaled
    left = listed
    for key in KEYS:
        left = _filtered(file.name, left, key, wanted)
    values = dict(override.split("=", 1) for override in request.overrides if "=" in override)
    sizes = [point.group.sizes(point.num_gpus, file.recipe) for point in left]
    named = (size for size in sizes if all(values.get(key, str(value)) == str(value) for key, value in size.items()))
    wanted_sizes = next(named, sizes[0])
    same = [point for point, size in zip(left, sizes, strict=True) if size == wanted_sizes]
    if len(same) > 1:
        common = f"{left[0].gpu}, {left[0].precision}, {left[0].num_gpus} GPUs, {left[0].framework}"
        raise UserError(f"several points have {common} and different layouts", where=file.name)
    return same[0]


def listed_counts(file: RecipeFile, point: Point) -> str:
    """The listed numbers of GPUs, for a point that cannot be scaled from one of them."""
    same = (p.num_gpus for p in points(file.recipe) if _agree(p, point, KEYS[:3]))
    return _alternatives("num_gpus", point.num_gpus, list(dict.fromkeys(same)))


def _scaled(listed: list[Point], wanted: Request) -> Point | None:
    """The nearest point that scales to a number of GPUs that is not listed; None if that is impossible.

    The model-parallel block and the batch per GPU stay, the data-parallel ranks grow.
    """
    if wanted.num_gpus is None or any(_agree(p, wanted, KEYS) for p in listed):
        return None
    num_gpus = wanted.num_gpus
    near = [p for p in listed if _agree(p, wanted, KEYS[:3]) and p.group.scales_to(num_gpus)]
    if len({(p.gpu, p.precision) for p in near}) != 1:
        return None
    nearest = min(near, key=lambda p: (abs(p.num_gpus - num_gpus), p.num_gpus))
    return replace(nearest, num_gpus=num_gpus, scaled_from=nearest.num_gpus)


def _agree(point: Point, wanted: Point | Request, keys: tuple[str, ...]) -> bool:
    return all((value := getattr(wanted, key)) is None or _same(getattr(point, key), value) for key in keys)


def _filtered(recipe: str, left: list[Point], key: str, request: Request) -> list[Point]:
    offered, wanted = list(dict.fromkeys(getattr(point, key) for point in left)), getattr(request, key)
    option = "--" + key.replace("_", "-")
    if wanted is None and len(offered) > 1:
        raise UserError(f"{recipe} has points for more than one {key}", hint=f"add {option}: {_list(offered)}")
    matching = [point for point in left if _agree(point, request, (key,))]
    if not matching:
        raise UserError(f"{recipe} has no point with {option} {wanted}", hint=_alternatives(key, wanted, offered))
    return matching


def _same(offered: object, wanted: object) -> bool:
    return str(offered).lower() == str(wanted).lower()


def _alternatives(key: str, wanted: Any, offered: list[Any]) -> str:
    if key == "num_gpus":
        near = sorted(offered, key=lambda n: abs(n - wanted))[:2]
        return f"nearest: {_list(sorted(near))}; listed: {_list(sorted(offered))}"
    if key == "gpu" and _same(wanted, "CPU"):
        return f"legal: {_list(offered)}; the recipes called tiny-... train on a CPU"
    return closest(wanted, offered)


def _list(values: list[Any]) -> str:
    return ", ".join(map(str, values))
