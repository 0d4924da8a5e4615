"""The draft of a run: recipe, framework, point, cluster and ``--set``, merged in this order and then checked.

Mappings merge key by key; any other value replaces the earlier one; null removes it, so that the default applies. A
recompute granularity other than full also removes the recipe's method and number of layers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from benchrun.errors import UserError, closest
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import checked, fields
from benchrun.recipe.schema import FrameworkEntry, PointGroup, Recipe
from benchrun.recipe.yamlfile import Document, Loc, parse, scalar
from benchrun.spec.runspec import Inputs, workload

_RECOMPUTE: Loc = ("training", "recompute")


def draft(file: RecipeFile, point: Point, cluster: Document, overrides: tuple[str, ...]) -> tuple[Inputs, Document]:
    """The checked inputs, and their document with the place of each value: file:line, or the ``--set``."""
    recipe, source, here = file.recipe, file.document, ("points", point.index)
    entry: Loc = ("frameworks", point.framework)
    merged = _Draft(workload(recipe.workload).inputs)
    for level, loc in ((Recipe, ()), (FrameworkEntry, entry), (PointGroup, here)):
        stated = functools.reduce(operator.getitem, loc, source.data)  # type: ignore[arg-type]
        computed = point.group.inputs(point.num_gpus) if loc == here else {}
        for key, value in (stated or {}).items():
            if key not in level.model_fields and value is not None:
                target, at_this_size = computed.get(key, ((key,), value))
                merged.merge(target, at_this_size, source, (*loc, key))
    merged.merge(("image",), recipe.frameworks[point.framework].image, source, (*entry, "image"))
    merged.merge(("env",), recipe.frameworks[point.framework].env, source, (*entry, "env"))
    merged.merge(("env",), recipe.env, source, ("env",))
    merged.merge(("cluster",), cluster.data, cluster, ())
    for override in overrides:
        merged.override(override)
    document = Document(merged.data, merged.places)
    return checked(merged.inputs, document), document


def leaves(value: Any, path: Loc = ()) -> Iterator[tuple[Loc, Any]]:
    """Every value of nested mappings that is not a mapping, with its keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def set_value(data: dict[str, Any], loc: Loc, value: Any) -> None:
    """Set one value of nested mappings; missing mappings are added."""
    for key in loc[:-1]:
        inner = data.get(str(key))
        if not isinstance(inner, dict):
            inner = data[str(key)] = {}
        data = inner
    data[str(loc[-1])] = value


@dataclass
class _Draft:
    """Values so far, and the place of each."""

    inputs: type[Inputs]
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Loc, str] = field(default_factory=dict)

    def merge(self, target: Loc, stated: Any, origin: Document, loc: Loc) -> None:
        """Set every value of ``stated``, which stands in ``origin`` at ``loc``, with its place; null removes one."""
        for path, value in leaves(stated):
            if value is None:
                self.remove((*target, *path), origin.where((*loc, *path)))
            else:
                set_value(self.data, (*target, *path), deepcopy(value))
        size = len(loc)
        self.places |= {(*target, *old[size:]): text for old, text in origin.places.items() if old[:size] == loc}

    def remove(self, loc: Loc, place: str) -> None:
        """Remove one value. UserError for a key that the inputs cannot have."""
        for end, key in enumerate(loc):
            if (legal := fields(self.inputs, loc[:end])) and key not in legal:
                dotted = ".".join(str(part) for part in loc[: end + 1])
                raise UserError(f"unknown key '{dotted}'", hint=closest(str(key), legal), where=place)
        inner: Any = self.data
        for key in loc[:-1]:
            inner = inner.get(str(key)) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner.pop(str(loc[-1]), None)

    def override(self, text: str) -> None:
        """Apply one ``a.b=value``. Lists, mappings and quoted values are YAML, anything else a scalar or text."""
        key, equals, value = text.partition("=")
        loc: Loc = tuple(key.split("."))
        place = f"--set {text}"
        if not equals or not all(loc):
            raise UserError(f"{place}: expected key=value", hint="for example --set training.steps=20")
        if loc[0] not in self.inputs.model_fields:
            raise UserError(f"{place}: unknown key '{loc[0]}'", hint=closest(str(loc[0]), self.inputs.model_fields))
        as_yaml = value[:1] in ("[", "{", '"', "'")
        given = parse(f"value: {value}", place).data["value"] if as_yaml else scalar(value)
        if given == {}:
            raise UserError(f"{place}: an empty mapping changes nothing", hint=f"{key}=null removes the value")
        parts = {(*loc, *path): part for path, part in leaves(given)}
        if parts.get((*_RECOMPUTE, "granularity"), "full") != "full":
            for path in ((*_RECOMPUTE, "method"), (*_RECOMPUTE, "num_layers")):
                if not self.places.get(path, "").startswith("--set"):
                    self.remove(path, "")
        for where, part in parts.items():
            if part is None:
                self.remove(where, place)
            else:
                set_value(self.data, where, part)
            for end in range(1, len(where) + 1):
                self.places[where[:end]] = place if end >= len(loc) else self.places.get(where[:end], place)
