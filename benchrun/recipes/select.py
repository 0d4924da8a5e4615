"""Choosing one point of a recipe from what the user asked for."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from benchrun import hardware
from benchrun.errors import UserError, closest
from benchrun.runspec.cluster import Cluster
from benchrun.vocabulary import MOST_GPUS

from .catalogue import Point, RecipeFile, checked, points
from .files import cluster_document

KEYS = ("framework", "gpu", "precision", "num_gpus")
NAMES = {"gpu": "GPU", "precision": "precision", "num_gpus": "number of GPUs"}


@dataclass(frozen=True)
class Request:
    """A point as the user names it; None is allowed if there is only one value."""

    recipe: str
    gpu: str | None = None
    precision: str | None = None
    num_gpus: int | None = None
    framework: str | None = None
    cluster: str | None = None
    overrides: tuple[str, ...] = field(default=())
    """``key=value``, applied in order."""


def select(file: RecipeFile, request: Request) -> Point:
    """The point that ``request`` names, scaled from a listed one if its number of GPUs
    is not listed.

    Among points that differ in batch or sequence length it is the one that ``--set``
    names, else the first. UserError names what is missing and the alternatives.
    """
    if (request.num_gpus or 0) > MOST_GPUS:
        raise UserError(
            f"number of GPUs ({request.num_gpus}) must be at most {MOST_GPUS}", where=file.name
        )
    listed = points(file.recipe)
    if request.gpu and not _answers(listed, request):
        listed = [*listed, *borrowed(listed, request)]
    wanted = replace(
        request, framework=request.framework or _first_framework(file, listed, request)
    )
    if scaled := _scaled(listed, wanted):
        return scaled
    left = [point for point in listed if _same(point.framework, wanted.framework)]
    if not left:
        _none(file.name, listed, "framework", wanted)
    for key in KEYS[1:]:
        if getattr(wanted, key) is not None:
            left = [point for point in left if _agree(point, wanted, (key,))] or _none(
                file.name, left, key, wanted
            )
    _complete(file.name, left, wanted)
    same = _of_stated_sizes(file, left, request.overrides)
    if len(same) > 1:
        common = f"{left[0].gpu}, {left[0].precision}, {left[0].num_gpus} GPUs, {left[0].framework}"
        raise UserError(f"several points have {common} and different layouts", where=file.name)
    return same[0]


def _first_framework(file: RecipeFile, listed: list[Point], request: Request) -> str:
    """The first framework of the recipe with the wanted point, else with one that scales to it."""
    suitable = {point.framework for point in listed if _agree(point, request, KEYS[1:])}
    for name in file.recipe.frameworks:
        if name in suitable:
            return name
    for name in file.recipe.frameworks:
        if _scaled(listed, replace(request, framework=name)):
            return name
    return next(iter(file.recipe.frameworks))


def _of_stated_sizes(
    file: RecipeFile, left: list[Point], overrides: tuple[str, ...]
) -> list[Point]:
    """The points with the batch and the sequence length that ``--set`` names, else with those
    of the first point.
    """
    values = dict(override.split("=", 1) for override in overrides if "=" in override)
    sizes = [point.group.sizes(point.num_gpus, file.recipe) for point in left]
    stated = []
    for key in set[str]().union(*sizes) & values.keys():
        stated.append((key, values[key].strip("\"'").lower()))
    wanted = sizes[0]
    for size in reversed(sizes):
        if all(str(size.get(key)).lower() == value for key, value in stated):
            wanted = size
    return [point for point, size in zip(left, sizes, strict=True) if size == wanted]


def borrowed(listed: list[Point], request: Request) -> list[Point]:
    """Points that a GPU without such a point borrows: those of the GPU that has one and
    is closest in memory.

    Those of the closest GPU of all if none has one. Empty if the GPU is unknown, or has
    less memory than all.
    """
    gpu = wanted_gpu(request.gpu, request.cluster)
    if gpu is None or not gpu.launched:
        return []
    closest_points = None
    for name in lenders([point.gpu for point in listed], gpu):
        lent = []
        for point in listed:
            if point.gpu == name and gpu.peak_tflops(point.precision):
                lent.append(replace(point, gpu=gpu.name, borrowed_from=name))
        if _answers(lent, request):
            return lent
        if closest_points is None:
            closest_points = lent
    return closest_points or []


def _answers(listed: list[Point], request: Request) -> bool:
    """Whether ``listed`` has the wanted point, or one that scales up to its number of
    GPUs.
    """
    alike = [point for point in listed if _agree(point, request, KEYS[:3])]
    wanted = request.num_gpus
    if wanted is None or any(point.num_gpus == wanted for point in alike):
        return bool(alike)
    return any(point.num_gpus < wanted and point.group.scales_to(wanted) for point in alike)


def lenders(listed: Iterable[str], gpu: hardware.Device) -> list[str]:
    """The other ``listed`` GPUs that have not more memory than ``gpu``, the closest
    first.
    """
    memory_gib = {}
    for name in listed:
        device = hardware.gpu(name)
        if device and name != gpu.name and device.memory_gib <= gpu.memory_gib:
            memory_gib[name] = device.memory_gib
    return sorted(memory_gib, key=memory_gib.__getitem__, reverse=True)


def wanted_gpu(name: str | None, cluster: str | None) -> hardware.Device | None:
    """The GPU called ``name``: of the site file, or of the hardware table."""
    if cluster:
        site = cluster_document(cluster)
        if site.get("hardware") and _same(site.get("gpu"), name):
            return hardware.site_gpu(checked(Cluster, site))
    for listed in hardware.names():
        if _same(listed, name):
            return hardware.gpu(listed)
    return None


def listed_counts(file: RecipeFile, point: Point) -> str:
    """The listed numbers of GPUs, for a point that cannot be scaled from one of them."""
    same = (p.num_gpus for p in points(file.recipe) if _agree(p, point, KEYS[:3]))
    return _alternatives("num_gpus", point.num_gpus, list(dict.fromkeys(same)))


def _scaled(listed: list[Point], wanted: Request) -> Point | None:
    """The nearest point that scales to a number of GPUs that is not listed; None if
    that is impossible.

    The model-parallel block and the batch per GPU stay, the data-parallel ranks grow.
    """
    if wanted.num_gpus is None or any(_agree(p, wanted, KEYS) for p in listed):
        return None
    num_gpus = wanted.num_gpus
    near = []
    for point in listed:
        if _agree(point, wanted, KEYS[:3]) and point.group.scales_to(num_gpus):
            near.append(point)
    if len({(p.gpu, p.precision) for p in near}) != 1:
        return None
    nearest = min(near, key=lambda p: (abs(p.num_gpus - num_gpus), p.num_gpus))
    return replace(nearest, num_gpus=num_gpus, scaled_from=nearest.num_gpus)


def _agree(point: Point, wanted: Point | Request, keys: tuple[str, ...]) -> bool:
    for key in keys:
        value = getattr(wanted, key)
        if value is not None and not _same(getattr(point, key), value):
            return False
    return True


def _none(recipe: str, left: list[Point], key: str, request: Request) -> NoReturn:
    """UserError: none of ``left`` has the wanted ``key``."""
    wanted, offered = getattr(request, key), _offered(left, key)
    hint = _alternatives(key, wanted, offered)
    if key == "gpu" and (device := wanted_gpu(wanted, request.cluster)):
        hint = f"{hint}; {cannot_borrow(device)}"
    raise UserError(f"{recipe} has no point with {_option(key)} {wanted}", hint=hint)


def cannot_borrow(gpu: hardware.Device) -> str:
    """Reason why ``gpu`` borrows no point."""
    if not gpu.launched:
        return f"runs on {gpu.name} are read and compared, not launched"
    return f"{gpu.name} ({gpu.memory_gib:g} GiB) lacks their memory or precision"


def _complete(recipe: str, left: list[Point], request: Request) -> None:
    """UserError that names every option that is missing, with the values that are left."""
    missing = {}
    for key in KEYS[1:]:
        offered = _offered(left, key)
        if getattr(request, key) is None and len(offered) > 1:
            missing[key] = offered
    if not missing:
        return
    example = " ".join(f"{_option(key)} {getattr(left[0], key)}" for key in missing)
    legal = [f"  {_option(key)} {_joined(sorted(values))}" for key, values in missing.items()]
    several = ", ".join(NAMES[key] for key in missing)
    hint = "\n".join([f"add {example}, or another of", *legal])
    raise UserError(f"{recipe} has points for more than one {several}", hint=hint)


def _offered(left: list[Point], key: str) -> list[Any]:
    return list(dict.fromkeys(getattr(point, key) for point in left))


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


def _same(offered: object, wanted: object) -> bool:
    return str(offered).lower() == str(wanted).lower()


def _alternatives(key: str, wanted: Any, offered: list[Any]) -> str:
    if key == "num_gpus":
        near = sorted(offered, key=lambda n: abs(n - wanted))[:2]
        return f"nearest: {_joined(sorted(near))}; listed: {_joined(sorted(offered))}"
    if key == "gpu" and _same(wanted, "CPU"):
        return f"legal: {_joined(offered)}; the recipes called tiny-... train on a CPU"
    return closest(wanted, offered)


def _joined(values: list[Any]) -> str:
    return ", ".join(map(str, values))
