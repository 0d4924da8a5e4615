"""The draft of a run: recipe, point, cluster and ``--set``, merged in this order and then checked.

Mappings merge key by key; any other value replaces the earlier one; null removes it, so that the default applies. A
recompute granularity other than full also removes the recipe's method and number of layers.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import Field, PositiveInt

from benchrun.errors import UserError, closest
from benchrun.model import Frozen, ModelShape
from benchrun.model.layout import Layout
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import checked, fields
from benchrun.recipe.yamlfile import Document, Loc, parse, scalar
from benchrun.spec.cluster import Cluster, EnvName, Line
from benchrun.spec.data import Data
from benchrun.spec.training import Training


class Draft(Frozen):
    """Everything a user can set; the rest of a RunSpec is computed from it."""

    model: ModelShape
    seq_length: PositiveInt
    mbs: PositiveInt
    gbs: PositiveInt
    layout: Layout
    training: Training
    data: Data
    image: Line | None = None
    env: dict[EnvName, str] = Field(default_factory=dict)
    cluster: Cluster


def draft(file: RecipeFile, point: Point, cluster: Document, overrides: tuple[str, ...]) -> tuple[Draft, Document]:
    """The checked draft, and its document with the place of each value: file:line, or the ``--set``."""
    group, recipe = point.group, file.recipe
    here: Loc = ("points", point.index)
    source = file.document
    data: dict[str, Any] = {}
    places: dict[Loc, str] = {}

    def put(target: Loc, value: Any, origin: Document, loc: Loc) -> None:
        """Set one value of the draft and record its place and those of its parts."""
        set_value(data, target, deepcopy(value))
        for end in range(1, len(target)):
            places.setdefault(target[:end], origin.where(loc))
        size = len(loc)
        places.update({(*target, *old[size:]): text for old, text in origin.places.items() if old[:size] == loc})

    def merge(target: str, section: dict[str, Any], loc: Loc) -> None:
        data.setdefault(target, {})
        for path, value in leaves(section):
            if value is None:
                remove(data, (target, *path), source.where((*loc, *path)))
            else:
                put((target, *path), value, source, (*loc, *path))

    put(("model",), source.data["model"], source, ("model",))
    put(("seq_length",), group.seq_length or recipe.seq_length, source, ("seq_length",))
    put(("mbs",), group.mbs, source, (*here, "mbs"))
    put(("gbs",), group.batch(point.num_gpus), source, (*here, "gbs" if group.gbs else "gbs_per_gpu"))
    merge("model", group.model, (*here, "model"))
    merge("layout", group.layout, (*here, "layout"))
    framework = recipe.frameworks[point.framework]
    merge("training", recipe.training, ("training",))
    merge("training", framework.training, ("frameworks", point.framework, "training"))
    merge("training", group.training, (*here, "training"))
    put(("data",), recipe.data.model_dump(), source, ("data",))
    put(("image",), framework.image, source, ("frameworks", point.framework, "image"))
    put(("env",), {**framework.env, **recipe.env}, source, ("env",))
    put(("cluster",), cluster.data, cluster, ())
    if group.num_layers:
        put(("model", "num_layers"), group.num_layers, source, (*here, "num_layers"))
    for override in overrides:
        _override(data, places, override)
    document = Document(data, places)
    return checked(Draft, document), document


def leaves(section: dict[str, Any], path: Loc = ()) -> list[tuple[Loc, Any]]:
    """Every value of nested mappings that is not a mapping, with its keys."""
    values: list[tuple[Loc, Any]] = []
    for key, value in section.items():
        values += leaves(value, (*path, key)) if isinstance(value, dict) else [((*path, key), value)]
    return values


def set_value(data: dict[str, Any], loc: Loc, value: Any) -> None:
    """Set one value of nested mappings; missing mappings are added."""
    for key in loc[:-1]:
        inner = data.get(str(key))
        if not isinstance(inner, dict):
            inner = data[str(key)] = {}
        data = inner
    data[str(loc[-1])] = value


_RECOMPUTE: Loc = ("training", "recompute")


def remove(data: dict[str, Any], loc: Loc, place: str) -> None:
    """Remove one value from a draft's nested mappings. UserError for a key that a draft cannot have."""
    for end, key in enumerate(loc):
        if (legal := fields(Draft, loc[:end])) and key not in legal:
            dotted = ".".join(str(part) for part in loc[: end + 1])
            raise UserError(f"unknown key '{dotted}'", hint=closest(str(key), legal), where=place)
    inner: Any = data
    for key in loc[:-1]:
        inner = inner.get(str(key)) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(str(loc[-1]), None)


def _override(data: dict[str, Any], places: dict[Loc, str], text: str) -> None:
    """Apply one ``a.b=value``. Lists, mappings and quoted values are YAML, anything else a scalar or text."""
    key, equals, value = text.partition("=")
    loc: Loc = tuple(key.split("."))
    if not equals or not all(loc):
        raise UserError(f"--set {text}: expected key=value", hint="for example --set training.steps=20")
    if loc[0] not in Draft.model_fields:
        raise UserError(f"--set {text}: unknown key '{loc[0]}'", hint=closest(str(loc[0]), Draft.model_fields))
    as_yaml = value[:1] in ("[", "{", '"', "'")
    given = parse(f"value: {value}", f"--set {text}").data["value"] if as_yaml else scalar(value)
    if given == {}:
        raise UserError(f"--set {text}: an empty mapping changes nothing", hint=f"{key}=null removes the value")
    parts = {(*loc, *path[1:]): part for path, part in leaves({"": given})}
    if parts.get((*_RECOMPUTE, "granularity"), "full") != "full":
        for path in ((*_RECOMPUTE, "method"), (*_RECOMPUTE, "num_layers")):
            if not places.get(path, "").startswith("--set"):
                remove(data, path, "")
    for where, part in parts.items():
        if part is None:
            remove(data, where, f"--set {text}")
        else:
            set_value(data, where, part)
        for end in range(1, len(where) + 1):
            places[where[:end]] = f"--set {text}" if end >= len(loc) else places.get(where[:end], f"--set {text}")
