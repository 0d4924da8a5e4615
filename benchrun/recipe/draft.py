"""The draft of a run: recipe, framework, point, cluster and ``--set``, merged in this order and then checked.

Mappings merge key by key; any other value replaces the earlier one; null removes it, so that the default applies. A
recompute granularity other than full also removes the recipe's method and number of layers.
"""

from __future__ import annotations

from benchrun.errors import UserError
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import checked, fields
from benchrun.recipe.schema import FrameworkEntry, PointGroup, Recipe
from benchrun.recipe.yamlfile import Document, Loc, parse, scalar
from benchrun.spec.runspec import Inputs, workload


def draft(file: RecipeFile, point: Point, cluster: Document, overrides: tuple[str, ...]) -> tuple[Inputs, Document]:
    """The checked inputs, and their document with the place of each value: file:line, or the ``--set``."""
    source, inputs, merged = file.document, workload(file.recipe.workload).inputs, Document()
    entry, group = source["frameworks"][point.framework], source["points"][point.index]
    computed = point.group.inputs(point.num_gpus)
    for level, stated in ((Recipe, source), (FrameworkEntry, entry), (PointGroup, group)):
        for key, value in stated.items():
            if key not in level.model_fields and value is not None:
                target, at_this_size = computed.get(key, ((key,), value)) if stated is group else ((key,), value)
                merged.put(target, at_this_size, stated.places[key])
    for key, stated in (("image", entry), ("env", entry), ("env", source)):
        if key in stated:
            merged.put((key,), stated[key], stated.places[key])
    merged.put(("cluster",), cluster, cluster.place)
    for override in overrides:
        _override(merged, override)
    _drop(merged, inputs)
    return checked(inputs, merged), merged


def _override(merged: Document, text: str) -> None:
    """Apply one ``a.b=value``. Lists, mappings and quoted values are YAML, anything else a scalar or text."""
    key, equals, value = text.partition("=")
    loc, place = tuple(key.split(".")), f"--set {text}"
    if not equals or not all(loc):
        raise UserError(f"{place}: expected key=value", hint="for example --set training.steps=20")
    as_yaml = value[:1] in ("[", "{", '"', "'")
    given = parse(f"value: {value}", place, lines=False)["value"] if as_yaml else scalar(value)
    if given == {}:
        raise UserError(f"{place}: an empty mapping changes nothing", hint=f"{key}=null removes the value")
    merged.put(loc, given, place)


def _drop(document: Document, inputs: type[Inputs], loc: Loc = ()) -> None:
    """Remove every null, but for keys that the inputs cannot have, which are refused afterwards."""
    stated = {key for key, place in document.places.items() if place.startswith("--set")}
    if loc == ("training", "recompute") and "granularity" in stated and document["granularity"] != "full":
        for key in {"method", "num_layers"} - stated:
            document.pop(key, None)
    legal = fields(inputs, loc)
    for key, value in list(document.items()):
        if isinstance(value, Document):
            _drop(value, inputs, (*loc, key))
        elif value is None and (not legal or key in legal):
            del document[key]
