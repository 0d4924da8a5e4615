"""Choosing one point of a recipe from what the user asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchrun.errors import UserError
from benchrun.recipe.catalogue import Point, RecipeFile, points
from benchrun.recipe.checked import closest


@dataclass(frozen=True)
class Request:
    """A point as the user names it; what is None is chosen only where there is no choice."""

    recipe: str
    gpu: str | None = None
    precision: str | None = None
    num_gpus: int | None = None
    framework: str | None = None
    cluster: str | None = None
    overrides: tuple[str, ...] = field(default=())
    """``key=value``, applied in order."""


def select(file: RecipeFile, request: Request) -> Point:
    """The one point that ``request`` means. UserError names what is missing or what there is instead."""
    left = points(file.recipe)
    framework = request.framework or next(iter(file.recipe.frameworks))
    left = _keep(file.name, left, "framework", framework)
    left = _keep(file.name, left, "gpu", request.gpu)
    left = _keep(file.name, left, "precision", request.precision)
    left = _keep(file.name, left, "num_gpus", request.num_gpus)
    if len(left) > 1:
        raise UserError(f"several points have {_common(left)} and layouts of their own", where=file.name)
    return left[0]


def _keep(recipe: str, left: list[Point], key: str, wanted: str | int | None) -> list[Point]:
    offered = list(dict.fromkeys(getattr(point, key) for point in left))
    option = "--" + key.replace("_", "-")
    if wanted is None:
        if len(offered) > 1:
            raise UserError(f"{recipe} has points for more than one {key}", hint=f"add {option}: {_list(offered)}")
        return left
    kept = [point for point in left if _same(getattr(point, key), wanted)]
    if kept:
        return kept
    raise UserError(f"{recipe} has no point with {option} {wanted}", hint=_instead(key, wanted, offered))


def _same(offered: str | int, wanted: str | int) -> bool:
    return str(offered).lower() == str(wanted).lower()


def _instead(key: str, wanted: str | int, offered: list[str | int]) -> str:
    if key == "num_gpus":
        near = sorted((int(n) for n in offered), key=lambda n: abs(n - int(wanted)))[:2]
        return f"nearest: {_list(sorted(near))}; listed: {_list(sorted(offered, key=int))}"
    return closest(str(wanted), (str(o) for o in offered))


def _list(values: list[str | int] | list[int]) -> str:
    return ", ".join(str(value) for value in values)


def _common(left: list[Point]) -> str:
    point = left[0]
    return f"{point.gpu}, {point.precision}, {point.num_gpus} GPUs, {point.framework}"
